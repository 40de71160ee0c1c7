"""Newton simulates the same scenes: a ratio of speeds is meaningful only if the motions agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.arms import Arms
from benchmarks.newton_arms import NewtonArms
from benchmarks.newton_beam import NewtonBeam
from benchmarks.newton_cloth import NewtonSheet
from benchmarks.newton_rigid import NewtonCubes
from benchmarks.scenes import BEAM_CELLS, Beam, Cubes, Sheet

pytest.importorskip("newton", reason="needs Newton: pip install 'gradsim[bench]'", exc_type=ImportError)


def relative_error(value, expected):
    return np.abs(value - expected).max() / np.abs(expected).max()


def own_gradients(benchmark, steps):
    """Final positions and gradients of gradsim, in float64."""
    unknowns = {name: values.requires_grad_() for name, values in benchmark.unknowns(torch.float64).items()}
    final = benchmark.simulate(benchmark.scene(unknowns), steps)
    (final * torch.as_tensor(benchmark.weights)).sum().backward()
    return final.detach().numpy(), {name: values.grad.numpy() for name, values in unknowns.items()}


@pytest.fixture(scope="module")
def beam_rollout():
    """A beam without damping, where both laws are the same, and Newton's rollout of it."""
    beam = Beam(BEAM_CELLS[100], damping=0.0)
    return beam, NewtonBeam(beam, steps=100)


class TestBeam:
    def test_positions_agree(self, beam_rollout):
        beam, newton = beam_rollout
        newton.capture(newton.forward)()
        with torch.no_grad():
            own = beam.simulate(beam.scene(beam.unknowns(torch.float32)), 100).numpy()
        # 7e-7 in float32; with damping 1.0 in one of the two it is 6e-3.
        assert relative_error(newton.final - beam.start, own - beam.start) < 1e-4

    def test_gradients_agree(self, beam_rollout):
        beam, newton = beam_rollout
        replay = newton.capture(newton.forward_backward)
        replay()
        replay()  # must not add to the gradients of the first
        _, gradients = own_gradients(beam, 100)
        for value, name in zip(newton.lame_gradients, ("mu", "lam"), strict=True):
            assert relative_error(value, gradients[name]) < 1e-4, name


class TestCloth:
    def test_membrane_agrees_at_small_strains(self):
        sheet = Sheet(8, damping=0.0, stiffness=1e-9, bending_damping=1e-12, noise=1e-3)
        newton = NewtonSheet(sheet, steps=20)
        newton.capture(newton.forward)()
        with torch.no_grad():
            own = sheet.simulate(sheet.scene(sheet.unknowns(torch.float32)), 20).numpy()
        # 3e-4; without the factor of the shear term 0.2
        assert relative_error(newton.final - sheet.start, own - sheet.start) < 2e-3

    def test_gradients_of_membrane_and_bending_are_not_zero(self):
        newton = NewtonSheet(Sheet(8), steps=10)
        newton.capture(newton.forward_backward)()
        materials, bending = newton.gradients
        assert (materials[:, :2] != 0).mean() > 0.9  # zero where all nodes are pinned
        assert (bending[:, 0] != 0).mean() > 0.9


class TestCubes:
    def test_positions_and_gradients_agree_where_the_contact_laws_do(self):
        cubes = Cubes(16, kd=0.0, kf=5.0, mu_range=(1e6, 1e6), delta=0.0)
        newton = NewtonCubes(cubes, steps=60)
        newton.capture(newton.forward)()
        replay = newton.capture(newton.forward_backward)
        replay()
        replay()  # must not add to the gradients of the first
        final, gradients = own_gradients(cubes, 60)
        assert relative_error(newton.final - cubes.position, final - cubes.position) < 1e-5  # 2e-6 in float32
        for name in ("mass", "ke", "velocity"):
            assert relative_error(newton.gradients[name], gradients[name]) < 5e-4, name  # 7e-5 in float32
        assert not newton.gradients["mu"].any()

    def test_the_timed_cubes_move_alike(self):
        cubes = Cubes(64)
        newton = NewtonCubes(cubes, steps=60)
        newton.forward()
        own = cubes.simulate(cubes.scene(cubes.unknowns(torch.float32)), 60).numpy()
        distance = np.linalg.norm(newton.final - own, axis=1).mean()
        path = np.linalg.norm(own - cubes.position, axis=1).mean()
        assert distance / path < 0.12  # 0.08; without friction in one of the two 0.27


class TestArms:
    def test_angles_agree(self):
        arms = Arms(4)
        newton = NewtonArms(arms, steps=100)
        newton.capture(newton.forward)()
        with torch.no_grad():
            own = arms.simulate(arms.scene(arms.unknowns(torch.float64)), 100).numpy()
        moved = own - arms.angle
        # 8e-7; with a damping of 0.11 in one of the two it is 2e-2
        assert relative_error(newton.final - arms.angle, moved) < 2e-5

    def test_gradients_agree_over_a_step(self):
        arms = Arms(4)
        newton = NewtonArms(arms, steps=1)
        newton.forward_backward()
        _, own = own_gradients(arms, 1)
        expected = np.stack([own[f"angle{k}"] for k in range(arms.joints)], 1)
        assert relative_error(newton.angle_gradients, expected) < 1e-5
