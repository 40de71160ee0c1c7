"""Quantities that change in time.

A signal has samples that are evenly spaced over the rollout, with linear interpolation between; the samples of a
prescribed motion are interpolated by cubics (`gradsim.scene.motion.cubic_weights`), of which a row may have the value
or the rate. Before every evaluation of the forces the present value is written to the row of the parameter table that
the signal sets.
"""

import functools
from dataclasses import dataclass
from typing import Any

import warp as wp

from gradsim.bridge import Table
from gradsim.native import kernel_module
from gradsim.simulate.forces.family import INTERPOLATIONS, types_of


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
    interpolation: int = INTERPOLATIONS.linear

    @property
    def counts(self) -> list[int]:
        """Integers that the portable kernels take, in order."""
        samples = [self.interpolation, self.sample_count, self.element_count]
        return [*samples, self.first, self.stride, self.row]


@functools.cache
def signal_kernels(real: Any) -> tuple[Any, Any]:
    """Kernels that sample a signal, and that add its adjoint."""
    types = types_of(real)
    module = kernel_module("signals", real)
    vec4 = wp.types.vector(4, real)
    zero, half, one, two, three = (real(a) for a in (0.0, 0.5, 1.0, 2.0, 3.0))
    wide, steep = real(2.5), real(1.5)

    @wp.func
    def signal_place(clock: types.ints, step: int, stage: real, sample_count: int):
        """Position on the axis of samples at a fraction `stage` of a step."""
        return (real(clock[0] + step) + stage) * real(sample_count - 1) / real(clock[2])

    @wp.func
    def signal_weights(interpolation: int, k: int, s: real, sample_count: int, rate: real):
        """Weights of the samples k - 1 to k + 2 at the fraction s between k and k + 1."""
        u = one - s
        w = vec4(zero, u, s, zero)
        if interpolation != wp.static(INTERPOLATIONS.linear):
            w = vec4(
                -half * s * u * u,
                one - s * s * (wide - steep * s),
                one - u * u * (wide - steep * u),
                -half * u * s * s,
            )
            if interpolation == wp.static(INTERPOLATIONS.rate):
                w = vec4(
                    -half * u * (one - three * s) * rate,
                    s * (three * steep * s - two * wide) * rate,
                    -u * (three * steep * u - two * wide) * rate,
                    half * s * (one - three * u) * rate,
                )
            if k == 0:
                w = vec4(zero, w[1] + two * w[0], w[2] - w[0], w[3])
            if k == sample_count - 2:
                w = vec4(w[0], w[1] - w[3], w[2] + two * w[3], zero)
        return w

    @wp.kernel(enable_backward=False, module=module)
    def sample_signal(
        clock: types.ints,
        dt: types.reals,
        step: int,
        stage: real,
        interpolation: int,
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
        rate = real(sample_count - 1) / (real(clock[2]) * dt[0])
        weights = signal_weights(interpolation, k, w, sample_count, rate)
        value = samples[at] * weights[1] + samples[at + element_count] * weights[2]
        if weights[0] != zero:
            value = value + samples[at - element_count] * weights[0]
        if weights[3] != zero:
            value = value + samples[at + 2 * element_count] * weights[3]
        values[row, e] = value

    @wp.kernel(enable_backward=False, module=module)
    def sample_signal_adjoint(
        clock: types.ints,
        dt: types.reals,
        step: int,
        stage: real,
        interpolation: int,
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
        rate = real(sample_count - 1) / (real(clock[2]) * dt[0])
        weights = signal_weights(interpolation, k, w, sample_count, rate)
        for m in range(4):
            if weights[m] != zero:
                near = at + (m - 1) * element_count
                samples_adj[near] = samples_adj[near] + g * weights[m]

    return sample_signal, sample_signal_adjoint


def sample_signals(signals: tuple[SignalArrays, ...], clock: Any, dt: Any, step: int, stage: float) -> None:
    """Sets every bound parameter to its value at the fraction `stage` of a step."""
    for signal in signals:
        samples, table = signal.samples.value, signal.parameters.value
        kernel, _ = signal_kernels(samples.dtype)
        counts = signal.counts
        inputs = [clock, dt, step, samples.dtype(stage), *counts, samples]
        threads = signal.world_count * signal.element_count
        wp.launch(kernel, threads, inputs=inputs, outputs=[table], device=table.device)


def add_signal_adjoints(signals: tuple[SignalArrays, ...], clock: Any, dt: Any, step: int, stage: float) -> None:
    """Moves the gradients of the bound parameters to the samples."""
    for signal in signals:
        samples_adj, table_adj = signal.samples.grad, signal.parameters.grad
        _, kernel = signal_kernels(samples_adj.dtype)
        counts = signal.counts
        inputs = [clock, dt, step, samples_adj.dtype(stage), *counts]
        threads = signal.world_count * signal.element_count
        wp.launch(kernel, threads, inputs=inputs, outputs=[table_adj, samples_adj], device=table_adj.device)
