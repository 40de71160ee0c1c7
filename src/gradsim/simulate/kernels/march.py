"""Rigid bodies through all steps of a graph in one launch, on the CPU.

Rigid bodies touch nothing but shapes at rest, so each goes its way alone: a thread takes one through many steps with
its state in registers (`native/march.h`), and writes the history, a row an evaluation of the forces and one at the end.
The lanes of a vector hold the same body of several worlds, or several points of one body where there is one world only.
The portable kernels of `rigid.py` and `touch.py` are the reference and serve every other device.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import NATIVE, types_of

STATE = 13  # scalars of a body's state: p, q, v, l
PAIR_ROOM, PUSH_ROOM = 32, 16  # numbers a thread keeps for each shape and each push


class MarchKernels(NamedTuple):
    march: Any
    adjoint: Any


@functools.cache
def march_kernels(real: Any, midpoint: bool, lanes: int) -> MarchKernels:
    """The kernels of an integrator, with `lanes` worlds a thread."""
    types = types_of(real)
    table, reals, vec3s, c = types.table, types.reals, types.vec3s, types.name
    quats = wp.array(dtype=wp.types.quaternion(real))
    ints, states = wp.array(dtype=wp.int32), wp.array(dtype=real, ndim=3)
    stem = f"march_{'midpoint' if midpoint else 'euler'}_{'points' if lanes == 1 else 'worlds'}"
    module = kernel_module(stem, real, NATIVE / "march.h")
    number = c if lanes == 1 else f"gradsim::Lanes<{c}>"
    template = f"<{c}, {number}, {'true' if midpoint else 'false'}>"
    rigids = (
        f"gradsim::Rigids<{c}> all = {{(int)(p.shape[0] / sizes.shape[0]), sizes.shape[0], kinds.shape[0],"
        " pushed.shape[0], clock.data[0], clock.data[1], steps, clock.data[3] != 0, dt.data[0], blocks.data,"
        " sizes.data, points.data, kinds.data, pushed.data, law.data, shape.data, push.data, body.data, law.shape[1],"
        f" shape.shape[1], push.shape[1], body.shape[1], ({c}*)p.data, ({c}*)q.data, ({c}*)v.data, ({c}*)l.data,"
        " history.data, history.shape[1], room.data};"
    )

    @wp.func_native(f"{rigids} gradsim::march{template}(thread, all);")
    def march_body(
        thread: int, steps: int, clock: ints, dt: reals,
        blocks: ints, sizes: ints, points: reals, kinds: ints, pushed: ints,
        law: table, shape: table, push: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, history: states, room: reals,
    ): ...  # fmt: skip

    @wp.func_native(
        f"{rigids} gradsim::RigidGradients<{c}> gradients = {{law_adj.data, shape_adj.data, push_adj.data,"
        f" body_adj.data, ({c}*)p_adj.data, ({c}*)q_adj.data, ({c}*)v_adj.data, ({c}*)l_adj.data}};"
        f" gradsim::march_adjoint{template}(thread, all, gradients);"
    )
    def march_body_adjoint(
        thread: int, steps: int, clock: ints, dt: reals,
        blocks: ints, sizes: ints, points: reals, kinds: ints, pushed: ints,
        law: table, shape: table, push: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, history: states, room: reals,
        law_adj: table, shape_adj: table, push_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ): ...  # fmt: skip

    @wp.kernel(enable_backward=False, module=module)
    def march(
        steps: int, clock: ints, dt: reals,
        blocks: ints, sizes: ints, points: reals, kinds: ints, pushed: ints,
        law: table, shape: table, push: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, history: states, room: reals,
    ):  # fmt: skip
        march_body(
            wp.tid(), steps, clock, dt, blocks, sizes, points, kinds, pushed, law, shape, push, body, p, q, v, l,
            history, room,
        )  # fmt: skip

    @wp.kernel(enable_backward=False, module=module)
    def march_adjoint(
        steps: int, clock: ints, dt: reals,
        blocks: ints, sizes: ints, points: reals, kinds: ints, pushed: ints,
        law: table, shape: table, push: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, history: states, room: reals,
        law_adj: table, shape_adj: table, push_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        march_body_adjoint(
            wp.tid(), steps, clock, dt, blocks, sizes, points, kinds, pushed, law, shape, push, body, p, q, v, l,
            history, room, law_adj, shape_adj, push_adj, body_adj, p_adj, q_adj, v_adj, l_adj,
        )  # fmt: skip

    return MarchKernels(march, march_adjoint)


@dataclass(frozen=True)
class March:
    """The rigid bodies of some worlds, all that a launch needs but their history."""

    kernels: MarchKernels
    threads: int
    lanes: int  # worlds a thread takes
    constants: tuple[Any, ...]  # where a body's blocks of points start, points of a body, blocks, shapes, pushed bodies
    parameters: tuple[Any, ...]  # tables of contact laws, shapes, pushes and bodies
    states: tuple[Any, ...]
    states_adj: tuple[Any, ...]
    room: Any
    history: Any = None  # [threads, rows, STATE * lanes]

    @property
    def row_size(self) -> int:
        """Scalars of history an evaluation of the forces."""
        return self.threads * STATE * self.lanes


def _arguments(march: March, system: Any, steps: int) -> list[Any]:
    tables = [p.value for p in march.parameters]
    return [steps, system.clock, system.dt, *march.constants, *tables, *march.states, march.history, march.room]


def launch_march(march: March, system: Any, steps: int) -> None:
    """Take all rigid bodies through the `steps` steps of a graph."""
    wp.launch(march.kernels.march, march.threads, inputs=_arguments(march, system, steps), device=system.dt.device)


def launch_march_adjoint(march: March, system: Any, steps: int) -> None:
    """Bring their adjoint back over these steps."""
    outputs = [*(p.grad for p in march.parameters), *march.states_adj]
    inputs = _arguments(march, system, steps)
    wp.launch(march.kernels.adjoint, march.threads, inputs=inputs, outputs=outputs, device=system.dt.device)
