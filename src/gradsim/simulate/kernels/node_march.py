"""Nodes through all steps of a graph in one launch, on the CPU.

Worlds do not meet, so a thread takes one through many steps: signals, forces and updates in turn, a cache line of
elements or nodes at a time, with hand-written adjoints (`native/node_march.h`). What a world needs stays in the near
caches meanwhile, and a launch, which costs as much as fifteen tetrahedra, is paid once. The portable kernels of
`integrate.py` and of the forces are the reference and serve every other device; tests hold the two equal.
"""

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.simulate.kernels.external import Signal
from gradsim.simulate.kernels.force import NATIVE, types_of

LIVE = ("x", "v", "f", "x_adj", "v_adj", "f_adj", "x_end", "v_end")  # what moves of a node

_Pointer, _Count = ctypes.c_void_p, ctypes.c_longlong


class _Table(ctypes.Structure):
    _fields_ = [("value", _Pointer), ("grad", _Pointer), ("stride", _Count)]

    @classmethod
    def of(cls, table: Any) -> "_Table":
        return cls(table.value.ptr, table.grad.ptr, table.value.shape[1])


class _Force(ctypes.Structure):
    _fields_ = [("kind", _Count), ("blocks", _Count), ("constants", _Pointer * 3), ("tables", _Table * 2)]


class _Signal(ctypes.Structure):
    _fields_ = [
        *((name, _Pointer) for name in ("value", "grad", "samples", "samples_grad")),
        *((name, _Count) for name in ("sample_count", "count", "first", "stride")),
    ]


class _Nodes(ctypes.Structure):
    _fields_ = [
        ("blocks", _Count),
        ("row", _Count),
        *((name, _Pointer) for name in (*LIVE, "xs", "vs", "fs")),
        ("table", _Table),
    ]


class NodeMarchKernels(NamedTuple):
    march: Any
    adjoint: Any


@functools.cache
def node_march_kernels(real: Any) -> NodeMarchKernels:
    types = types_of(real)
    reals, c = types.reals, types.name
    ints, structures = wp.array(dtype=wp.int32), wp.array(dtype=wp.uint8, ndim=2)
    module = kernel_module("node_march", real, NATIVE / "node_march.h")
    system = (
        f"gradsim::NodeSystem<{c}> all = {{(const gradsim::Nodes<{c}>*)nodes.data,"
        f" (const gradsim::NodeForce<{c}>*)forces.data, (const gradsim::NodeSignal<{c}>*)signals.data,"
        " forces.shape[0], signals.shape[0], clock.data, dt.data[0]};"
    )

    def over_steps(name: str) -> Any:
        @wp.func_native(f"{system} gradsim::{name}(world, steps, midpoint != 0, all);")
        def through_steps(
            world: int, steps: int, midpoint: int, clock: ints, dt: reals,
            nodes: structures, forces: structures, signals: structures,
        ): ...  # fmt: skip

        def kernel(
            steps: int, midpoint: int, clock: ints, dt: reals,
            nodes: structures, forces: structures, signals: structures,
        ):  # fmt: skip
            through_steps(wp.tid(), steps, midpoint, clock, dt, nodes, forces, signals)

        return _kernel(kernel, name, module)

    return NodeMarchKernels(over_steps("node_march"), over_steps("node_march_adjoint"))


def _kernel(function: Any, name: str, module: Any) -> Any:
    """A kernel under a name of its own, which Warp needs where one function makes several."""
    function.__name__ = function.__qualname__ = name
    return wp.kernel(function, enable_backward=False, module=module)


@dataclass(frozen=True)
class NodeForce:
    """One kind of force: `kind` counts the families of FORCES, `blocks` those of a world."""

    kind: int
    blocks: int
    constants: tuple[Any, ...]  # arrays fixed by the topology
    parameters: tuple[Any, ...]  # tables with .value and .grad, [parameters, elements]

    def structure(self) -> _Force:
        constants, tables = (array.ptr for array in self.constants), (_Table.of(p) for p in self.parameters)
        return _Force(self.kind, self.blocks, (_Pointer * 3)(*constants), (_Table * 2)(*tables))


@dataclass(frozen=True)
class NodeMarch:
    """The nodes of some worlds and the forces on them, all that a launch needs but their history."""

    world_count: int
    blocks: int  # of nodes in a world
    midpoint: bool
    arrays: dict[str, Any]  # of LIVE
    table: Any
    forces: tuple[NodeForce, ...]
    signals: tuple[Signal, ...]
    history: tuple[Any, ...] = ()  # of x, v and f
    structures: tuple[Any, ...] = ()  # what kernels see of all this

    def recording(self, history: Sequence[Any]) -> "NodeMarch":
        """The same with room for its history, x, v and f of [rows, nodes] each."""
        xs, vs, fs = history
        nodes = _Nodes(
            blocks=self.blocks,
            row=3 * xs.shape[1],
            **{name: array.ptr for name, array in self.arrays.items()},
            **{"xs": xs.ptr, "vs": vs.ptr, "fs": fs.ptr},
            table=_Table.of(self.table),
        )
        signals = [_signal(signal) for signal in self.signals]
        forces = [force.structure() for force in self.forces]
        structures = (_bytes([nodes], _Nodes), _bytes(forces, _Force), _bytes(signals, _Signal))
        return replace(self, history=tuple(history), structures=structures)


def _signal(signal: Signal) -> _Signal:
    value, grad, samples = signal.table.value, signal.table.grad, signal.samples
    row = signal.row * value.strides[0]
    counts = (signal.sample_count, signal.element_count, signal.first, signal.stride)
    return _Signal(value.ptr + row, grad.ptr + row, samples.value.ptr, samples.grad.ptr, *counts)


def _bytes(structures: list[Any], kind: Any) -> Any:
    data = np.frombuffer(b"".join(map(bytes, structures)), np.uint8).reshape(-1, ctypes.sizeof(kind))
    return wp.array(data, dtype=wp.uint8, device="cpu")


def launch_node_march(march: NodeMarch, system: Any, steps: int) -> None:
    """Take all nodes through the `steps` steps of a graph."""
    _launch(node_march_kernels(system.dt.dtype).march, march, system, steps)


def launch_node_march_adjoint(march: NodeMarch, system: Any, steps: int) -> None:
    """Bring their adjoint back over these steps."""
    _launch(node_march_kernels(system.dt.dtype).adjoint, march, system, steps)


def _launch(kernel: Any, march: NodeMarch, system: Any, steps: int) -> None:
    inputs = [steps, int(march.midpoint), system.clock, system.dt, *march.structures]
    wp.launch(kernel, march.world_count, inputs=inputs, device="cpu")
