"""Declarations of force families: what everything else in the simulator iterates over.

A family is one kind of element: its elements and constants from the mesh, its parameters and their sources on the scene
object, its stable-step estimate, its portable kernel and its native twin. A force kernel reads fixed arrays, its
parameters and the state, and adds to the forces of the state parts it acts on:

    kernel(*clock, *indices, *constants, *parameter_arrays, *states, *forces)

`clock` is there for families that depend on time: (clock, step, stage, dt). A hand-written adjoint reads the adjoint of
the forces and adds to the adjoints of parameters and state,

    adjoint(*clock, *indices, *constants, *parameter_arrays, *states, *forces_adj, *parameter_arrays_adj, *states_adj)

and without one Warp's own reverse mode is used.
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
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView


class Types(NamedTuple):
    """Warp's scalar, vector, matrix and array types of one precision; `name` is the C++ scalar."""

    real: Any
    vec3: Any
    mat22: Any
    mat33: Any
    quat: Any
    vec3s: Any  # array of vectors
    quats: Any  # array of quaternions
    reals: Any  # array of scalars
    table: Any  # array of scalars, [parameters, elements]
    ints: Any  # array of integers
    name: str


@functools.cache
def types_of(real: Any) -> Types:
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
    force: Any
    adjoint: Any | None = None  # None: Warp differentiates `force`


@dataclass(frozen=True)
class Elements:
    """Elements of one scene object: how many there are, and their arrays with the elements first."""

    count: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """An array of element indices into another family.

    Args:
        into: Name of the family it points into: "node", "rigid", "hinge", "shape".
        fill: Entry for lanes that only fill up a block of lanes; None repeats the last element's.
    """

    into: str
    fill: int | None = None


Source: TypeAlias = "str | Callable[[Any], Any]"  # path on the owner such as "material.mu", or a function of the owner


@dataclass(frozen=True, eq=False)
class ParameterFamily:
    """Elements of one kind with a parameter array: one row for each parameter, one column for each element.

    Args:
        name: The family's word in the names of parameters, arrays and errors.
        rows: Names of the parameters, in order.
        owners: Types of the scene objects that have such elements.
        elements: Function of an owner and a `Placement` that returns its `Elements`.
        parameters: Where each row comes from: a path on the owner or a function of it.
        columns: Function (owner, scene, topology, batcher) -> tensor [B, rows, elements] that replaces `parameters`
            where a row is not a quantity of the owner.
        signals: Rows that may be a `gs.Signal`.
        present: Whether an owner has such elements in a scene.
        key: What the elements depend on besides the owner's body: equal keys give equal elements.
        period: With `columns`: after how many columns of an owner they repeat; all differ if None.
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
    period: Callable[[Scene], int] | None = None

    def owners_in(self, scene: Scene) -> Iterator[tuple[str, Any]]:
        """Name and object of everything in a scene that has such elements."""
        for name, scene_object in scene_objects(scene):
            if isinstance(scene_object, self.owners) and self.present(scene_object, scene):
                yield name, scene_object

    def value(self, row: str, owner: Any) -> Any:
        """The quantity that fills a row for the elements of one owner."""
        source = self.parameters[row]
        return source(owner) if callable(source) else _reader(source)(owner)

    def values(self, owner: Any) -> list[Any]:
        """The quantities of all rows, in order."""
        return [self.value(row, owner) for row in self.rows]


@functools.cache
def _reader(path: str) -> Callable[[Any], Any]:
    return operator.attrgetter(path)


def scene_objects(scene: Scene) -> list[tuple[str, Any]]:
    """Bodies, static shapes and forces of a scene by name."""
    bodies = [(body.name, body) for body in scene.bodies]
    return bodies + list(scene.obstacles.items()) + [(force.name, force) for force in scene.forces]


def no_rate(view: "StabilityView") -> tuple[float, float]:
    """The stable rate of a force that does not limit the time step."""
    return 0.0, 0.0


@dataclass(frozen=True, eq=False)
class ForceFamily(ParameterFamily):
    """A force: its elements and parameters as for `ParameterFamily`, and how it acts.

    Args:
        acts_on: Parts of the state: ("node",), ("rigid",), or both for a force between them.
        kernels: Function of a Warp scalar type that returns the portable `ForceKernels`.
        indices: Index arrays among the elements' arrays, in the kernel's order.
        constants: Names of further arrays of the elements, in the kernel's order.
        shared: Names of arrays of other families, such as "shape.kinds", behind the constants.
        uses: Other families whose parameter arrays the kernel reads behind its own.
        timed: Whether the kernel depends on time.
        arrays: Function (layout) -> Warp arrays that replaces `indices`, `constants` and `shared` in the portable step.
        native: Header with the functions `<name>_force` and `<name>_force_adjoint`; None for portable only.
        stable_rate: Function of a `StabilityView` that returns the largest squared frequency [1/s^2] and damping rate
            [1/s] of an owner's elements.
        reason: What limits the time step, for messages.
        limits: Parts and states, besides its own parameters, that the stable rate depends on.
    """

    acts_on: tuple[str, ...] = ("node",)
    kernels: Callable[[Any], ForceKernels] = field(kw_only=True)
    indices: Mapping[str, Index] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    timed: bool = False
    arrays: Callable[[Any], tuple[Any, ...]] | None = None
    native: str | None = None
    stable_rate: Callable[["StabilityView"], tuple[float, float]] = no_rate
    reason: str = ""

    @property
    def couples(self) -> bool:
        """Whether it acts between parts of the state."""
        return len(self.acts_on) > 1
