"""Articulated bodies: native and portable kernels, the engine's features, motions of links, errors."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim import bridge
from gradsim.check.gradient_problems.articulated import ARM, TREE
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard

CPU = torch.device("cpu")


def run_shard(problem, dtype, native, integrator, worlds):
    """Returns states, adjoints and gradients after a few steps forward and back."""
    values = {name: value.to(dtype) for name, value in problem.values().items()}
    if worlds > 1:
        factors = [1.0, 1.01, 0.98][:worlds]
        values = {name: torch.stack([value * factor for factor in factors]) for name, value in values.items()}
    compiled = compile_scene(problem.build(values))
    bridge.initialize()
    shard = BatchShard(compiled.topology, worlds, integrator, dtype, CPU, native)
    shard.load({family: compiled.parameters[family] for family in shard.parameters}, compiled.signals, 4e-3)
    shard.reserve(6, math.inf)
    for name, state in compiled.states.items():
        shard.vectors(name).copy_(state)
    shard.run(0, 6, 0, 6)
    after = [state.clone() for state in shard.states()]
    generator = torch.Generator().manual_seed(1)
    shard.clear_gradients()
    for adjoint in shard.states("_adj"):
        adjoint.copy_(torch.randn(adjoint.shape, generator=generator, dtype=torch.float64).to(dtype))
    for state, width in (("q", 1), ("v", 1)):  # joints with one coordinate have no other adjoint
        scalar = torch.as_tensor(compiled.topology.arrays["joint.kinds"] != 2)
        shard.vectors(f"joint.{state}_adj")[:, scalar, width:] = 0.0
    shard.run_back(0, 6, 0, 6)
    parameters, samples = shard.gradients()
    return [*after, *(a.clone() for a in shard.states("_adj")), *(p.clone() for p in parameters.values()), *samples]


@pytest.mark.parametrize("worlds", [1, 3])
@pytest.mark.parametrize("integrator", [SymplecticEuler(), Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("problem", [ARM, TREE], ids=lambda p: p.name)
def test_native_and_portable_rollouts_agree(problem, integrator, worlds):
    native, portable = (run_shard(problem, torch.float64, n, integrator, worlds) for n in (True, False))
    for one, other in zip(native, portable, strict=True):
        scale = max(1.0, float(other.abs().max()))
        assert float((one - other).abs().max()) < 1e-11 * scale


def test_single_precision_agrees():
    integrator = SymplecticEuler()
    single = run_shard(ARM, torch.float32, True, integrator, 3)
    double = run_shard(ARM, torch.float64, True, integrator, 3)
    portable = run_shard(ARM, torch.float32, False, integrator, 3)
    for values in (single, portable):
        for one, other in zip(values, double, strict=True):
            assert float((one - other).abs().max()) < 2e-4 * max(1.0, float(other.abs().max()))
