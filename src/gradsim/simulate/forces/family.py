"""Declarations of force families, over which everything else in the simulator iterates.

A family is one kind of element: its elements and constants, its parameters and where they are found in the scene, its
stable-step estimate, its portable kernel and its native counterpart. A force kernel reads constant arrays, parameters
and states, and adds to the forces of the parts of the state that it acts on:

    kernel(*clock, *indices, *constants, *parameter_arrays, *states, *forces)

`clock` is (clock, step, stage, dt) for families that depend on time, and empty for others. A hand-written adjoint reads
the adjoint of the forces and adds to the adjoints of parameters and states:

    adjoint(*clock, *indices, *constants, *parameter_arrays, *states, *forces_adj, *parameter_arrays_adj, *states_adj)

Without one, Warp differentiates the force kernel.
"""

import functools
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import warp as wp

from gradsim.native import scalar_name
from gradsim.native.structures import Enumeration
from gradsim.scene.scene import Scene

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView


class Types(NamedTuple):
    """Warp types of one precision; `name` is the C++ scalar type."""

    real: Any
    vec3: Any
    mat22: Any
    mat33: Any
    quat: Any
    vec3s: Any  # array of vectors
    quats: Any  # array of quaternions
    reals: Any  # array of scalars
    table: Any  # array of scalars, [rows, elements]
    ints: Any  # array of integers
    name: str


@functools.cache
def types_of(real: Any) -> Types:
    """Returns the Warp types for a scalar type."""
    vec3, quat = wp.types.vector(3, real), wp.types.quaternion(real)
    return Types(
        real=real,
        vec3=vec3,
        mat22=wp.types.matrix((2, 2), real),
        mat33=wp.types.matrix((3, 3), real),
        quat=quat,
        vec3s=wp.array(dtype=vec3),
        quats=wp.array(dtype=quat),
        reals=wp.array(dtype=real),
        table=wp.array(dtype=real, ndim=2),
        ints=wp.array(dtype=wp.int32),
        name=scalar_name(real),
    )


class ForceKernels(NamedTuple):
    """Portable kernels of a force family.

    Example:
        `gs.ForceKernels(force=magnet_force, adjoint=magnet_adjoint)`
    """

    force: Any
    adjoint: Any | None = None  # None: Warp differentiates `force`


@dataclass(frozen=True)
class Elements:
    """Elements of one scene object: their number, and arrays whose first dimension counts them.

    Example:
        `gs.Elements(3, {"nodes": np.array([0, 4, 7])})`
    """

    count: int  # number of elements
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # [count, ...] each, by name


@dataclass(frozen=True)
class Index:
    """An array of element indices into another family.

    Example:
        `gs.Index("node", fill=-1)`

    Args:
        into: Name of that family: "node", "rigid", "hinge", "shape".
        fill: Entry of the unused lanes of the last block; that of the last element if None.
    """

    into: str
    fill: int | None = None


Source: TypeAlias = "str | Callable[[Any], Any]"  # path on the owner such as "material.mu", or a function of the owner


INTERPOLATIONS = Enumeration("interpolation", ("linear", "cubic", "rate"))  # of a signal; the rate is that of the cubic


@dataclass(frozen=True, eq=False)
class MotionRows:
    """Rows of a family that follow the `gs.Motion` of their owner.

    Args:
        rows: Rows with their interpolation, "cubic" or "rate".
        sample_count: Function of an owner that returns the samples of its motion; 0 if it has none.
        samples: Function (owner, scene, topology, batcher) -> samples of every row, [B, samples, elements].
    """

    rows: Mapping[str, str]
    sample_count: Callable[[Any], int]
    samples: Callable[..., Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class ParameterFamily:
    """Elements of one kind with a parameter array: one row for each parameter, one column for each element.

    Args:
        name: Prefix of the names of parameters and arrays.
        rows: Names of the parameters, in order.
        owners: Types of the scene objects that have such elements.
        elements: Function of an owner and a `Placement` that returns its `Elements`.
        parameters: Source of each row: a path on the owner or a function of it.
        columns: Function (owner, scene, topology, batcher) -> tensor [B, rows, elements], instead of `parameters`,
            for rows that are not quantities of the owner.
        signals: Rows that may be a `gs.Signal`.
        present: Function (owner, scene) that returns whether the owner has such elements.
        key: Function of an owner; owners with equal keys have equal elements.
        scene_key: Function of a scene; scenes with equal keys have equal elements, if those of their owners are.
        period: Function of a scene that returns after how many columns those of an owner repeat; with `columns` only.
            All columns differ if None.
        prescribed: Rows that follow a prescribed motion.
    """

    name: str
    rows: Enumeration
    owners: tuple[type, ...]
    elements: Callable[[Any, "Placement"], Elements]
    parameters: Mapping[str, Source] = field(default_factory=dict)
    columns: Callable[..., Any] | None = None
    signals: tuple[str, ...] = ()
    present: Callable[[Any, Scene], bool] = lambda owner, scene: True
    key: Callable[[Any], Hashable] = lambda owner: None
    scene_key: Callable[[Scene], Hashable] = lambda scene: None
    period: Callable[[Scene], int] | None = None
    prescribed: MotionRows | None = None

    def owners_in(self, scene: Scene) -> Iterator[tuple[str, Any]]:
        """Yields the name of each owner in a scene, and the owner."""
        for name, scene_object in scene_objects(scene):
            if isinstance(scene_object, self.owners) and self.present(scene_object, scene):
                yield name, scene_object

    def value(self, row: str, owner: Any) -> Any:
        """Returns the quantity of one row, for the elements of one owner."""
        source = self.parameters[row]
        return source(owner) if callable(source) else _reader(source)(owner)

    def values(self, owner: Any) -> list[Any]:
        """Returns the quantities of all rows, in order."""
        return [self.value(row, owner) for row in self.rows]


@functools.cache
def _reader(path: str) -> Callable[[Any], Any]:
    return operator.attrgetter(path)


def scene_objects(scene: Scene) -> list[tuple[str, Any]]:
    """Returns the bodies, links that collide, static shapes and forces of a scene with their names."""
    bodies = [(body.name, body) for body in (*scene.bodies, *scene.link_bodies)]
    return bodies + list(scene.obstacles.items()) + [(force.name, force) for force in scene.forces]


def no_rate(view: "StabilityView") -> tuple[float, float]:
    """The stable rate of a force that does not limit the time step."""
    return 0.0, 0.0


@dataclass(frozen=True, eq=False)
class ForceFamily(ParameterFamily):
    """A force, with elements and parameters as for `ParameterFamily`.

    Example:
        `gs.register_force_family(gs.ForceFamily(name="magnet", rows=rows, owners=(Magnet,), kernels=kernels))`

    Args:
        acts_on: Parts of the state: ("node",), ("rigid",), or both for a force between them.
        kernels: Function of a Warp scalar type that returns the portable `ForceKernels`.
        indices: Index arrays of the elements, in the order of the kernel.
        constants: Names of further arrays of the elements, in the order of the kernel.
        shared: Names of arrays of other families, such as "shape.kinds"; they follow the constants.
        uses: Other families whose parameter tables the kernel reads after its own.
        timed: Whether the kernel depends on time.
        anchors: Part of the state with the anchors of sticking friction, which the kernel reads after the other states
            and whose next values it writes after the forces. The arguments (advance, commit, dt) then come first: the
            fraction of the step to which the evaluation advances anchors, whether it writes the next ones, and dt.
        arrays: Function (layout) -> Warp arrays, instead of `indices`, `constants` and `shared` of the portable kernel.
        threads: Function of a topology that returns the threads of the portable kernel in one world; one for each
            element if None.
        native: Header with the functions `<name>_force` and `<name>_force_adjoint`; None if there is no native kernel.
        per_world: Whether the native kernel takes all elements of a world at once instead of blocks of lanes.
        native_arrays: Function (layout) -> constants of a native kernel that takes all blocks of a world at once, or of
            one between parts of the state.
        native_count: Function (layout) -> elements of the latter in one world.
        tangent: Family whose kernels give the matrix of implicit steps for a force per world, from the same elements
            and the same first rows of the parameters; None if implicit steps do not support that.
        stable_rate: Function of a `StabilityView` that returns the largest squared frequency [1/s^2] and damping rate
            [1/s] of an owner's elements.
        reason: What limits the time step, for messages.
    """

    acts_on: tuple[str, ...] = ("node",)
    kernels: Callable[[Any], ForceKernels] = field(kw_only=True)
    indices: Mapping[str, Index] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    timed: bool = False
    anchors: str | None = None
    arrays: Callable[[Any], tuple[Any, ...]] | None = None
    threads: Callable[["Topology"], int] | None = None
    native: str | None = None
    per_world: bool = False
    native_arrays: Callable[[Any], tuple[Any, ...]] | None = None
    native_count: Callable[[Any], int] | None = None
    tangent: str | None = None
    stable_rate: Callable[["StabilityView"], tuple[float, float]] = no_rate
    reason: str = ""

    @property
    def couples(self) -> bool:
        """Whether the force acts between parts of the state."""
        return len(self.acts_on) > 1
