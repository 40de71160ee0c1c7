"""The updates of nodes as native lanes on the CPU: the kernels of native/nodes.h in place of those of integrate.py."""

import functools
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.force import NATIVE, types_of
from gradsim.simulate.kernels.integrate import IntegrateKernels


@functools.cache
def native_integrate_kernels(real: Any) -> IntegrateKernels:
    """Same arguments as the portable kernels; a thread takes a block of nodes."""
    types = types_of(real)
    reals, vec3s, table, c = types.reals, types.vec3s, types.table, types.name
    clocks = wp.array(dtype=wp.int32)
    rows = wp.array(dtype=types.vec3, ndim=2)
    module = kernel_module("integrate_native", real, NATIVE / "nodes.h")
    model = "block, clock.data[1] + row, dt.data[0], x.shape[0], node.data, node.shape[1]"

    def pointers(*names: str) -> str:
        return ", ".join(f"({c}*){name}.data" for name in names)

    def update(name: str) -> Any:
        @wp.func_native(f"gradsim::node_{name}({model}, {pointers('xs', 'vs', 'fs', 'x', 'v', 'f')});")
        def block_update(
            block: int,
            clock: clocks,
            row: int,
            dt: reals,
            node: table,
            xs: rows,
            vs: rows,
            fs: rows,
            x: vec3s,
            v: vec3s,
            f: vec3s,
        ): ...

        def node_update(
            clock: clocks,
            row: int,
            dt: reals,
            node: table,
            xs: rows,
            vs: rows,
            fs: rows,
            x: vec3s,
            v: vec3s,
            f: vec3s,
        ):
            block_update(wp.tid(), clock, row, dt, node, xs, vs, fs, x, v, f)

        return _kernel(node_update, name, module)

    adjoints = ("xs", "vs", "fs", "x", "v", "x_adj", "v_adj", "f_adj", "node_adj")

    @wp.func_native(f"gradsim::node_euler_adjoint({model}, {pointers(*adjoints)});")
    def block_euler_adjoint(
        block: int,
        clock: clocks,
        row: int,
        dt: reals,
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
    ): ...

    def euler_adjoint(
        clock: clocks,
        row: int,
        dt: reals,
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
        block_euler_adjoint(wp.tid(), clock, row, dt, node, xs, vs, fs, x, v, x_adj, v_adj, f_adj, node_adj)

    def midpoint_adjoint(name: str) -> Any:
        @wp.func_native(f"gradsim::node_{name}({model}, {pointers(*adjoints, 'x_end', 'v_end')});")
        def block_adjoint(
            block: int,
            clock: clocks,
            row: int,
            dt: reals,
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
        ): ...

        def node_adjoint(
            clock: clocks,
            row: int,
            dt: reals,
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
            block_adjoint(wp.tid(), clock, row, dt, node, xs, vs, fs, x, v, x_adj, v_adj, f_adj, node_adj, x_end, v_end)

        return _kernel(node_adjoint, name, module)

    return IntegrateKernels(
        update("euler"),
        _kernel(euler_adjoint, "euler_adjoint", module),
        update("half"),
        midpoint_adjoint("half_adjoint"),
        update("full"),
        midpoint_adjoint("full_adjoint"),
    )


def _kernel(function: Any, name: str, module: Any) -> Any:
    """A kernel under a name of its own, which Warp needs where one function makes several."""
    function.__name__ = function.__qualname__ = f"node_{name}"
    return wp.kernel(function, enable_backward=False, module=module)
