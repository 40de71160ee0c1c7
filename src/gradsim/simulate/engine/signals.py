"""Quantities that change in time.

A signal has samples that are evenly spaced over the rollout, with linear interpolation between. Before every evaluation
of the forces its present value is written to the row of the parameter table that it sets.
"""

import functools
from dataclasses import dataclass
from typing import Any

import warp as wp

from gradsim.bridge import Table
from gradsim.native import kernel_module
from gradsim.simulate.forces.family import types_of


@dataclass(frozen=True)
class SignalArrays:
    """Samples [worlds, samples, elements] that set a range of one row of a parameter table."""

    parameters: Table
    row: int
    samples: Table  # one-dimensional
    sample_count: int
    element_count: int  # that it sets in one world
    first: int  # first element that it sets in a world
    stride: int  # columns of one world in the parameter table
    world_count: int


@functools.cache
def signal_kernels(real: Any) -> tuple[Any, Any]:
    """Kernels that sample a signal, and that add its adjoint."""
    types = types_of(real)
    module = kernel_module("signals", real)

    @wp.func
    def signal_place(clock: types.ints, step: int, stage: real, sample_count: int):
        """Position on the axis of samples at a fraction `stage` of a step."""
        return (real(clock[0] + step) + stage) * real(sample_count - 1) / real(clock[2])

    @wp.kernel(enable_backward=False, module=module)
    def sample_signal(
        clock: types.ints,
        step: int,
        stage: real,
        sample_count: int,
        element_count: int,
        first: int,
        stride: int,
        row: int,
        samples: types.reals,
        values: types.table,
    ):
        thread = wp.tid()
        world = thread / element_count
        local = thread % element_count
        e = world * stride + first + local
        place = signal_place(clock, step, stage, sample_count)
        k = wp.min(int(place), sample_count - 2)
        w = place - real(k)
        at = (world * sample_count + k) * element_count + local
        values[row, e] = samples[at] * (real(1.0) - w) + samples[at + element_count] * w

    @wp.kernel(enable_backward=False, module=module)
    def sample_signal_adjoint(
        clock: types.ints,
        step: int,
        stage: real,
        sample_count: int,
        element_count: int,
        first: int,
        stride: int,
        row: int,
        values_adj: types.table,
        samples_adj: types.reals,
    ):
        thread = wp.tid()
        world = thread / element_count
        local = thread % element_count
        e = world * stride + first + local
        place = signal_place(clock, step, stage, sample_count)
        k = wp.min(int(place), sample_count - 2)
        w = place - real(k)
        at = (world * sample_count + k) * element_count + local
        g = values_adj[row, e]
        values_adj[row, e] = real(0.0)
        samples_adj[at] = samples_adj[at] + g * (real(1.0) - w)
        samples_adj[at + element_count] = samples_adj[at + element_count] + g * w

    return sample_signal, sample_signal_adjoint


def sample_signals(signals: tuple[SignalArrays, ...], clock: Any, step: int, stage: float) -> None:
    """Sets every bound parameter to its value at the fraction `stage` of a step."""
    for signal in signals:
        samples, table = signal.samples.value, signal.parameters.value
        kernel, _ = signal_kernels(samples.dtype)
        counts = [signal.sample_count, signal.element_count, signal.first, signal.stride, signal.row]
        inputs = [clock, step, samples.dtype(stage), *counts, samples]
        threads = signal.world_count * signal.element_count
        wp.launch(kernel, threads, inputs=inputs, outputs=[table], device=table.device)


def add_signal_adjoints(signals: tuple[SignalArrays, ...], clock: Any, step: int, stage: float) -> None:
    """Moves the gradients of the bound parameters to the samples."""
    for signal in signals:
        samples_adj, table_adj = signal.samples.grad, signal.parameters.grad
        _, kernel = signal_kernels(samples_adj.dtype)
        counts = [signal.sample_count, signal.element_count, signal.first, signal.stride, signal.row]
        inputs = [clock, step, samples_adj.dtype(stage), *counts]
        threads = signal.world_count * signal.element_count
        wp.launch(kernel, threads, inputs=inputs, outputs=[table_adj, samples_adj], device=table_adj.device)
