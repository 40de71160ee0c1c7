"""User-defined forces: a function of the state of one node or one rigid body becomes a `ForceFamily`.

    def wind(x, v, t, velocity, drag):
        return (velocity - v) * drag

    @gs.node_force(wind)
    @dataclass(frozen=True, eq=False)
    class Wind(gs.BodyForce):
        velocity: gs.Quantity = gs.quantity((0.0, 0.0, 0.0), "m/s", shape=(3,))
        drag: gs.Quantity = gs.quantity(0.1, "kg/s", low=0.0)

The function is compiled for each precision and differentiated by Warp. Its arguments are the state, the time [s] and
the quantities of the class in the order of their declaration. Scenes with such a force use the portable kernels.
"""

import functools
import inspect
import linecache
import types as python_types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.errors import InvalidInput
from gradsim.scene.forces import BodyForce
from gradsim.scene.quantity import Spec, component, specs_of
from gradsim.scene.rigid import Rigid
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, no_rate, types_of
from gradsim.simulate.forces.registry import register_force_family
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

F = TypeVar("F", bound=type[BodyForce])
StableRate: TypeAlias = "Callable[[StabilityView], tuple[float, float]]"

_NODE_KERNEL = """
def {name}_force(
    clock: ints, step: int, stage: real, dt: reals, nodes: ints, values: table, x: vec3s, v: vec3s, f: vec3s
):
    e = wp.tid()
    i = nodes[e]
    t = dt[1] + (real(clock[0] + step) + stage) * dt[0]
    wp.atomic_add(f, i, function(x[i], v[i], t{arguments}))
"""

_RIGID_KERNEL = """
def {name}_force(
    clock: ints, step: int, stage: real, dt: reals, bodies: ints, values: table, rigid: table,
    p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, torques: vec3s,
):
    e = wp.tid()
    i = bodies[e]
    t = dt[1] + (real(clock[0] + step) + stage) * dt[0]
    force, torque = function(p[i], q[i], v[i], spin(q[i], l[i], inverse_inertia(rigid, i)), t{arguments})
    wp.atomic_add(f, i, force)
    wp.atomic_add(torques, i, torque)
"""


def node_force(function: Callable[..., Any], *, stable_rate: StableRate = no_rate) -> Callable[[F], F]:
    """Class decorator that declares a force on nodes.

    Example:
        `@gs.node_force(electric_force)`

    Args:
        function: Warp function `(x, v, t, *quantities) -> force` of a node's position [m] and velocity [m/s], the time
            [s] and the quantities of the decorated class; returns a force [N]. Write constants as `type(t)(0.5)`, so
            that they have the precision of the scene.
        stable_rate: Function of a `StabilityView` that returns the largest squared frequency [1/s^2] and damping rate
            [1/s]; by default the force does not limit `gs.stable_dt`.
    """
    return _declared(function, stable_rate, "node", "nodes", (NodeBody,), _NODE_KERNEL, ("x", "v", "t"), _node_elements)


def rigid_force(function: Callable[..., Any], *, stable_rate: StableRate = no_rate) -> Callable[[F], F]:
    """Class decorator that declares a force on rigid bodies.

    Example:
        `@gs.rigid_force(magnet_force)`

    Args:
        function: Warp function `(p, q, v, w, t, *quantities) -> (force, torque)` of the centre of mass [m], the
            rotation as a quaternion, the velocity [m/s], the spin [rad/s], the time [s] and the quantities of the
            decorated class; returns a force [N] and a torque about the centre of mass [N m], in world axes.
        stable_rate: As for `node_force`.
    """
    state = ("p", "q", "v", "w", "t")
    return _declared(function, stable_rate, "rigid", "bodies", (Rigid,), _RIGID_KERNEL, state, _rigid_elements)


def _node_elements(force: BodyForce, place: "Placement") -> Elements:
    spans = [(place.first("node", body), node_count(body)) for body in force.bodies_in(place.scene)]
    nodes = np.concatenate([np.arange(first, first + count, dtype=np.int32) for first, count in spans])
    return Elements(len(nodes), {"nodes": nodes})


def _rigid_elements(force: BodyForce, place: "Placement") -> Elements:
    bodies = np.array([place.first("rigid", body) for body in force.bodies_in(place.scene)], dtype=np.int32)
    return Elements(len(bodies), {"bodies": bodies})


def _declared(
    function: Callable[..., Any],
    stable_rate: StableRate,
    part: str,
    index: str,
    body_kinds: tuple[type, ...],
    template: str,
    state: tuple[str, ...],
    elements: Callable[[Any, "Placement"], Elements],
) -> Callable[[F], F]:
    def declare(kind: F) -> F:
        specs = specs_of(kind)
        _check_arguments(function, kind, (*state, *specs))
        name = f"user_{kind.__name__.lower()}"
        sources = {row: source for quantity, spec in specs.items() for row, source in _row_sources(quantity, spec)}
        kind.body_kinds = body_kinds
        register_force_family(
            ForceFamily(
                name=name,
                rows=Rows(name, *sources),
                owners=(kind,),
                elements=elements,
                parameters=sources,
                signals=tuple(sources),
                key=lambda force: tuple(force.bodies),
                acts_on=(part,),
                kernels=functools.cache(lambda real: _kernels(name, function, template, state, specs, real)),
                indices={index: Index(part)},
                timed=True,
                stable_rate=stable_rate,
                reason=f"{kind.__name__} force",
            )
        )
        return kind

    return declare


def _check_arguments(function: Callable[..., Any], kind: type, wanted: tuple[str, ...]) -> None:
    """Raises unless a force function takes as many arguments as wanted."""
    found = tuple(inspect.signature(function).parameters)
    if len(found) != len(wanted):
        shown = f"{function.__name__}({', '.join(found)})"
        raise InvalidInput(kind.__name__, shown, f"must take {len(wanted)} arguments: {', '.join(wanted)}")


def _row_sources(quantity: str, spec: Spec) -> list[tuple[str, Any]]:
    """Returns the rows of a quantity with their sources: one for a number, one for each component of a vector."""
    if not spec.shape:
        return [(quantity, quantity)]
    if len(spec.shape) > 1:
        raise InvalidInput(quantity, f"shape {spec.shape}", "a force's quantities must be numbers or vectors")
    return [
        (f"{quantity}_{axis}", lambda force, axis=axis: component(getattr(force, quantity), axis))
        for axis in range(spec.shape[0])
    ]


def _kernels(
    name: str, function: Callable[..., Any], template: str, state: tuple[str, ...], specs: dict[str, Spec], real: Any
) -> ForceKernels:
    """Builds the kernel of a force from a template, in one precision."""
    types, module = types_of(real), kernel_module(name, real)
    known = {"x": types.vec3, "p": types.vec3, "v": types.vec3, "w": types.vec3, "q": types.quat, "t": real}
    kinds = [known[argument] for argument in state]
    arguments, row = "", 0
    namespace: dict[str, Any] = {**types._asdict(), "wp": wp, "int": int}
    for spec in specs.values():
        width = spec.shape[0] if spec.shape else 1
        values = ", ".join(f"values[{row + k}, e]" for k in range(width))
        namespace[f"vec{width}"] = vector = wp.types.vector(width, real)
        kinds.append(vector if spec.shape else real)
        arguments += f", vec{width}({values})" if spec.shape else f", {values}"
        row += width
    functions = rotation_functions(real)
    namespace |= {"spin": functions.spin, "inverse_inertia": functions.inverse_inertia}
    namespace["function"] = wp.func(_with_types(function, kinds), module=module)
    source = template.format(name=name, arguments=arguments)
    return ForceKernels(wp.kernel(_compiled(source, f"{name}_force", namespace), module=module))


def _with_types(function: Callable[..., Any], kinds: list[Any]) -> Callable[..., Any]:
    """Returns a copy of a function with its arguments annotated by the types of one precision."""
    given: Any = function
    copy = python_types.FunctionType(
        given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__
    )
    copy.__annotations__ = dict(zip(inspect.signature(function).parameters, kinds, strict=True))
    copy.__module__, copy.__qualname__ = given.__module__, given.__qualname__
    return copy


def _compiled(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Returns a function compiled from source, which Warp reads again through `linecache`."""
    file = f"<gradsim {name} {namespace['name']}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]
