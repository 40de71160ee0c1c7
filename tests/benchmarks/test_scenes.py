"""The scenes of the physics benchmarks: their sizes, stable steps and initial states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradsim as gs
from benchmarks import beams, calls
from benchmarks.rigid import BATCHES
from benchmarks.scenes import BEAM_CELLS, INTEGRATOR, SHEET_CELLS, Beam, Cubes, Sheet
from benchmarks.worlds import LARGE, SCENES, WORLDS


def stable_dt(benchmark):
    return gs.stable_dt(benchmark.scene(benchmark.unknowns(torch.float64)), INTEGRATOR)


@pytest.mark.parametrize("size", BEAM_CELLS)
def test_beams_have_their_size(size):
    beam = Beam(BEAM_CELLS[size])
    assert len(beam.mesh.tets) == size
    assert beam.pinned.sum() == (beam.cells[1] + 1) * (beam.cells[2] + 1)


def test_the_paper_has_a_speed_for_every_beam():
    assert set(beams.PAPER) == set(BEAM_CELLS)


@pytest.mark.parametrize("size", SHEET_CELLS)
def test_sheets_have_their_size_and_stable_steps(size):
    sheet = Sheet(SHEET_CELLS[size])
    assert len(sheet.mesh.faces) == size
    assert sheet.dt < stable_dt(sheet)


def test_steps_of_the_beam_are_stable():
    beam = Beam(BEAM_CELLS[1000])
    assert beam.dt < stable_dt(beam)


class TestCubes:
    def test_lowest_corner_starts_a_centimetre_above_the_plane(self):
        cubes = Cubes(5)
        scene = cubes.scene(cubes.unknowns(torch.float64))
        corners = gs.simulate(scene, frames=1)["cube"].vertices[:, 0]
        assert np.allclose(corners[..., 1].amin(-1), 0.01, atol=1e-12)
        assert corners.shape == (5, 8, 3)

    def test_steps_are_stable(self):
        cubes = Cubes(max(BATCHES))
        assert cubes.dt < stable_dt(cubes)

    def test_worlds_differ_and_larger_batches_begin_like_smaller_ones(self):
        few, many = Cubes(4), Cubes(64)
        assert np.array_equal(many.ke[:4], few.ke)
        assert len(np.unique(many.ke)) == 64


class TestCalls:
    @pytest.mark.parametrize("name", calls.SCENES)
    def test_scenes_are_stable_and_depend_on_their_value(self, name):
        value = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        scene = calls.SCENES[name](value)
        assert gs.stable_dt(scene, INTEGRATOR) > 1.0 / (calls.FPS * calls.SUBSTEPS)
        states = calls.simulate(scene).states
        sum(state[-1].sum() for state in states.values()).backward()
        assert value.grad is not None
        assert value.grad.item() != 0


class TestWorlds:
    @pytest.mark.parametrize("scene", [scene for scene in SCENES if scene != LARGE])
    def test_worlds_differ_and_have_gradients(self, scene):
        end, *gradients = SCENES[scene](torch.float64).results(480)
        assert len(end) == WORLDS
        assert (end[1:] != end[:-1]).flatten(1).any(1).all()
        for gradient in gradients:
            assert gradient.reshape(WORLDS, -1).any(1).all()

    @pytest.mark.parametrize("scene", SCENES)
    def test_meshes_are_divided_by_world_and_cubes_by_block_of_lanes(self, scene):
        single, double = (SCENES[scene](dtype).shares for dtype in (torch.float32, torch.float64))
        expected = {LARGE: (2, 2)}.get(scene, (1, 2) if "cube" in scene else (WORLDS, WORLDS))  # two subdomains
        assert (single, double) == expected
