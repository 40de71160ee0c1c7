"""Forces on or between bodies: `Scene(bodies, forces=[...])`.

A force is a frozen dataclass derived from `Force` with physical quantities as fields. These may be unknown and have
paths such as `rope.stiffness`. In scene files a force has its class name in lower case. A `gs.ForceFamily` declares how
it acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gradsim.scene.bodies import check_name, node_count
from gradsim.scene.body import Body, NodeBody
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.scene.quantity import Quantity, quantities, quantity
from gradsim.scene.rigid import Rigid
from gradsim.scene.spelling import abbreviate
from gradsim.scene.validation import check_element_count, validate_quantities

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene


@dataclass(frozen=True, eq=False)
class Force:
    """Base class of the forces in a scene.

    Example:
        `issubclass(gs.Tether, gs.Force)`

    Args:
        name: Identifier, the first part of its parameters' paths.
    """

    name: str
    kinds: ClassVar[list[type[Force]]] = []  # all subclasses, for scene files

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if not abstract:
            Force.kinds.append(cls)

    def __post_init__(self) -> None:
        check_name(self.name)
        validate_quantities(self, self.name)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the rigid bodies, or of links as in `arm/hand`, that a subclass names."""
        return ()

    def check(self, scene: Scene) -> None:
        """Raises unless the force fits the scene; subclasses check the bodies they name."""

    def find_body(self, scene: Scene, field: str, name: Any, kinds: tuple[type, ...]) -> Any:
        """Returns the body of a given name, checked to be of one of the given types; errors name the field."""
        found: Any = next((body for body in (*scene.bodies, *scene.link_bodies) if body.name == name), None)
        if found is None:
            known = ", ".join(body.name for body in scene.bodies if isinstance(body, kinds)) or "none"
            raise UnknownName(f"{self.name}.{field}", repr(name), f"the bodies that it can act on are {known}")
        if not isinstance(found, kinds):
            valid = " or ".join(f"gs.{kind.__name__}" for kind in Body.kinds if issubclass(kind, kinds))
            raise WrongType(f"{self.name}.{field}", f"{name!r}, a {type(found).__name__}", f"must name a {valid}")
        return found

    def check_per_element(self, count: int) -> None:
        """Raises unless every `gs.per_element` quantity has `count` values."""
        for name, spec in quantities(self):
            if spec.per is not None:
                check_element_count(f"{self.name}.{name}", getattr(self, name), spec, count)


@dataclass(frozen=True, eq=False)
class BodyForce(Force, abstract=True):
    """Base class of forces on single bodies; see `gs.node_force` and `gs.rigid_force`.

    Example:
        `class Wind(gs.BodyForce): speed: gs.Quantity = gs.quantity(0.0, "m/s")`

    Args:
        name: Identifier, the first part of its parameters' paths.
        bodies: Names of the bodies it acts on; all of a suitable type if empty.
    """

    bodies: Sequence[str] = ()
    body_kinds: ClassVar[tuple[type, ...]] = ()  # set by `gs.node_force` or `gs.rigid_force`

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.bodies
        if isinstance(given, str) or not all(isinstance(body, str) for body in given):
            raise WrongType(f"{self.name}.bodies", repr(given), "must be a list of names of bodies")
        object.__setattr__(self, "bodies", tuple(given))

    def check(self, scene: Scene) -> None:
        if not self.bodies_in(scene):
            kinds = [kind for kind in Body.kinds if issubclass(kind, self.body_kinds)]
            valid = " or ".join(f"gs.{kind.__name__}" for kind in kinds) or "body: declare how it acts"
            raise InvalidInput(self.name, "a force on no body", f"the scene needs a {valid}")

    def bodies_in(self, scene: Scene) -> list[Any]:
        """Returns the bodies of a scene that it acts on."""
        if self.bodies:
            return [self.find_body(scene, "bodies", name, self.body_kinds) for name in self.bodies]
        return [body for body in scene.bodies if isinstance(body, self.body_kinds)]


@dataclass(frozen=True, eq=False)
class Tether(Force):
    """Damped springs between nodes of a soft body, cloth or spring body and points of a rigid body.

    The force on a node at d from its point, moving at u relative to the rigid body, is
    -stiffness (|d| - rest_length) d/|d| - damping u. The opposite force acts on the rigid body at the node's position,
    so that momentum and angular momentum are conserved. A rest length of zero is a linear attraction.

    Example:
        `gs.Tether("rope", body="chain", nodes=[4], rigid="cube", stiffness=500.0)`

    Args:
        name: Identifier, the first part of its parameters' paths.
        body: Name of the `Soft`, `Cloth` or `Springs` body.
        nodes: Index of its node, or several indices.
        rigid: Name of the `Rigid` body, or of a link, as in `arm/hand`.
        points: Points in the rigid body's mesh coordinates or the axes of the link [m], [..., 3] or `gs.per_element`
            with one for each node.
        stiffness: [N/m].
        damping: [N s/m].
        rest_length: [m].
    """

    body: str = ""
    nodes: Any = ()
    rigid: str = ""
    points: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,), per="node")
    stiffness: Quantity = quantity(1e3, "N/m", low=0.0, per="node")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="node")
    rest_length: Quantity = quantity(0.0, "m", low=0.0, per="node")

    def __post_init__(self) -> None:
        super().__post_init__()
        nodes = np.atleast_1d(np.asarray(self.nodes))
        if nodes.ndim != 1 or not nodes.size or not np.issubdtype(nodes.dtype, np.integer):
            raise WrongShape(f"{self.name}.nodes", abbreviate(self.nodes), "must be a node index or a list of them")
        object.__setattr__(self, "nodes", nodes.astype(np.int32))
        self.check_per_element(len(nodes))

    def check(self, scene: Scene) -> None:
        count = node_count(self.body_of(scene))
        if self.nodes.min() < 0 or self.nodes.max() >= count:
            bad = int(self.nodes.min() if self.nodes.min() < 0 else self.nodes.max())
            raise OutOfRange(f"{self.name}.nodes", bad, f"node indices must lie in [0, {count})")
        self.rigid_of(scene)

    @property
    def body_names(self) -> tuple[str, ...]:
        return (self.rigid,)

    def body_of(self, scene: Scene) -> NodeBody:
        """Returns the body of the nodes."""
        found: NodeBody = self.find_body(scene, "body", self.body, (NodeBody,))
        return found

    def rigid_of(self, scene: Scene) -> Rigid:
        """Returns the rigid body."""
        found: Rigid = self.find_body(scene, "rigid", self.rigid, (Rigid,))
        return found


def check_forces(scene: Scene) -> tuple[Force, ...]:
    """Returns the forces of a scene as a tuple, checked against its bodies."""
    given: Any = scene.forces
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise WrongType("scene.forces", type(given).__name__, "must be a list of forces")
    names = {body.name for body in scene.bodies} | {"scene", "ground", "camera", "pairs", *map(str, scene.shapes)}
    for force in given:
        if not isinstance(force, Force):
            kinds = ", ".join(f"gs.{kind.__name__}" for kind in Force.kinds)
            raise WrongType("scene.forces", type(force).__name__, f"must hold forces: {kinds}")
        if force.name in names:
            raise InvalidInput("name", repr(force.name), "every body and every force needs a name of its own")
        names.add(force.name)
        force.check(scene)
    return tuple(given)
