"""The updates of nodes between two evaluations of the forces, and their adjoints.

Every update first records the state and the force it starts from in the history, a row an evaluation; the adjoint goes
through these rows backwards, puts the recorded state back, and turns the adjoint of the new state into that of the old
one and of the force. Rows and steps are counted from the clock: [0] step, [1] row at the start of the captured graph,
[2] steps of the whole rollout.

These kernels run everywhere; on the CPU the native ones of node_march.py take their place. Tests hold the two equal.
"""

import functools
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import types_of

PARAMETERS = ("inverse_mass", "gravity_x", "gravity_y", "gravity_z")  # [1/kg], 0 pins a node; [m/s^2]


class IntegrateKernels(NamedTuple):
    euler: Any
    euler_adjoint: Any
    half: Any
    half_adjoint: Any
    full: Any
    full_adjoint: Any


@functools.cache
def integrate_kernels(real: Any) -> IntegrateKernels:
    types = types_of(real)
    vec3, vec3s, table = types.vec3, types.vec3s, types.table
    clocks = wp.array(dtype=wp.int32)
    rows = wp.array(dtype=types.vec3, ndim=2)
    half_step = real(0.5)
    module = kernel_module("integrate", real)

    @wp.func
    def acceleration(node: table, i: int, f: vec3):
        w = node[0, i]
        a = f * w
        if w != real(0.0):
            a += vec3(node[1, i], node[2, i], node[3, i])
        return a

    @wp.func
    def acceleration_adjoint(node: table, i: int, f: vec3, a_adj: vec3, node_adj: table):
        w = node[0, i]
        if w != real(0.0):
            node_adj[0, i] = node_adj[0, i] + wp.dot(a_adj, f)
            node_adj[1, i] = node_adj[1, i] + a_adj[0]
            node_adj[2, i] = node_adj[2, i] + a_adj[1]
            node_adj[3, i] = node_adj[3, i] + a_adj[2]
        return a_adj * w

    @wp.kernel(enable_backward=False, module=module)
    def euler(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        f: vec3s,
    ):
        """Symplectic Euler: v += dt a, then x += dt v."""
        i = wp.tid()
        r = clock[1] + row
        xs[r, i] = x[i]
        vs[r, i] = v[i]
        fs[r, i] = f[i]
        v1 = v[i] + acceleration(node, i, f[i]) * dt[0]
        v[i] = v1
        x[i] = x[i] + v1 * dt[0]
        f[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def euler_adjoint(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        x_adj: vec3s,
        v_adj: vec3s,
        f_adj: vec3s,
        node_adj: table,
    ):
        i = wp.tid()
        r = clock[1] + row
        x[i] = xs[r, i]
        v[i] = vs[r, i]
        v1_adj = v_adj[i] + x_adj[i] * dt[0]
        v_adj[i] = v1_adj
        f_adj[i] = acceleration_adjoint(node, i, fs[r, i], v1_adj * dt[0], node_adj)

    @wp.kernel(enable_backward=False, module=module)
    def half(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        f: vec3s,
    ):
        """Explicit midpoint, first half: state at the middle of the step."""
        i = wp.tid()
        r = clock[1] + row
        xs[r, i] = x[i]
        vs[r, i] = v[i]
        fs[r, i] = f[i]
        h = half_step * dt[0]
        x[i] = x[i] + v[i] * h
        v[i] = v[i] + acceleration(node, i, f[i]) * h
        f[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def full(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        f: vec3s,
    ):
        """Explicit midpoint, second half: the whole step with the rates at its middle."""
        i = wp.tid()
        r = clock[1] + row
        xs[r, i] = x[i]
        vs[r, i] = v[i]
        fs[r, i] = f[i]
        x[i] = xs[r - 1, i] + v[i] * dt[0]
        v[i] = vs[r - 1, i] + acceleration(node, i, f[i]) * dt[0]
        f[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def full_adjoint(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        x_adj: vec3s,
        v_adj: vec3s,
        f_adj: vec3s,
        node_adj: table,
        x_end: vec3s,
        v_end: vec3s,
    ):
        """From the adjoint at the end of the step (kept in x_end, v_end) to that at its middle."""
        i = wp.tid()
        r = clock[1] + row
        x[i] = xs[r, i]
        v[i] = vs[r, i]
        x_end[i] = x_adj[i]
        v_end[i] = v_adj[i]
        f_adj[i] = acceleration_adjoint(node, i, fs[r, i], v_adj[i] * dt[0], node_adj)
        v_adj[i] = x_adj[i] * dt[0]
        x_adj[i] = vec3()

    @wp.kernel(enable_backward=False, module=module)
    def half_adjoint(
        clock: clocks,
        row: int,
        dt: types.reals,
        node: table,
        xs: rows,
        vs: rows,
        fs: rows,
        x: vec3s,
        v: vec3s,
        x_adj: vec3s,
        v_adj: vec3s,
        f_adj: vec3s,
        node_adj: table,
        x_end: vec3s,
        v_end: vec3s,
    ):
        """From the adjoint at the middle to that at the start of the step."""
        i = wp.tid()
        r = clock[1] + row
        x[i] = xs[r, i]
        v[i] = vs[r, i]
        h = half_step * dt[0]
        f_adj[i] = acceleration_adjoint(node, i, fs[r, i], v_adj[i] * h, node_adj)
        v_adj[i] = v_end[i] + x_adj[i] * h + v_adj[i]
        x_adj[i] = x_end[i] + x_adj[i]

    return IntegrateKernels(euler, euler_adjoint, half, half_adjoint, full, full_adjoint)


def launch_update(kernel: Any, system: Any, part: Any, row: int) -> None:
    """Launch `euler`, `half` or `full` on a part, recording history row `row` of the graph."""
    inputs = [system.clock, row, system.dt, part.table.value]
    outputs = [*part.history, *part.states, *part.forces]
    wp.launch(kernel, part.count, inputs=inputs, outputs=outputs, device=system.dt.device)


def launch_update_adjoint(kernel: Any, system: Any, part: Any, row: int, ends: Any) -> None:
    """Launch the adjoint of an update; that of a midpoint step keeps the adjoint of its end in the part's `ends`."""
    inputs = [system.clock, row, system.dt, part.table.value, *part.history]
    outputs = [*part.states, *part.states_adj, *part.forces_adj, part.table.grad, *ends]
    wp.launch(kernel, part.count, inputs=inputs, outputs=outputs, device=system.dt.device)


def launch_pendula(kernel: Any, system: Any, row: int) -> None:
    part = system.pendulum
    inputs = [system.clock, row, system.dt, part.links, part.table.value]
    wp.launch(kernel, part.count, inputs=inputs, outputs=[*part.history, *part.states], device=system.dt.device)


def launch_pendula_adjoint(kernel: Any, system: Any, row: int) -> None:
    part = system.pendulum
    inputs = [system.clock, row, system.dt, part.links, part.table.value, *part.history]
    wp.launch(kernel, part.count, inputs=inputs, outputs=[*part.states_adj, part.table.grad], device=system.dt.device)
