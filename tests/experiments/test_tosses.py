"""Tosses of a cube: fits of recorded and of simulated motion capture predict other tosses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.experiments import tosses
from gradsim.scene.errors import InvalidInput

REAL = Path(__file__).parents[2].parent / "shared" / "real"
MU, CENTER, INERTIA = 0.2, 0.007, 1.2e-3  # of simulated tosses: friction, [m], [kg m^2]
TRUTH = {
    "ground.mu": MU,
    "ground.ke": 1e4,
    "ground.kd": 60.0,
    "ground.kf": 60.0,
    "ground.offset": -0.001,
    "cube.center[0]": 0.0,
    "cube.center[1]": 0.0,
    "cube.center[2]": CENTER,
    "cube.inertia[0][0]": INERTIA,
}
CORRUPTED = "002"


def recording(name, rng, frames=45):
    """A simulated toss, by another integrator with a finer step than those of the fit, with noise."""
    rotation = rng.normal(size=4)
    first = tosses.Recording(
        name,
        torch.tensor([[*rng.uniform(-0.1, 0.1, 2), rng.uniform(0.12, 0.16)]]),
        torch.tensor(rotation / np.linalg.norm(rotation))[None],
        torch.tensor([*rng.uniform(0.5, 1.0, 2), rng.uniform(-0.5, 0.0)]),
        torch.tensor(rng.uniform(-4.0, 4.0, 3)),
    )
    scene = tosses.trial(first).scene.with_values(TRUTH)
    motion = gs.simulate(scene, frames=frames, fps=tosses.FPS, substeps=64, integrator=gs.SymplecticEuler())["cube"]
    position = motion.position + torch.tensor(rng.normal(scale=5e-5, size=(frames, 3)))
    if name == CORRUPTED:  # the recording of another toss after the first third
        position[frames // 3 :, 1] += torch.linspace(0.0, 0.3, frames - frames // 3)
    return replace(first, position=position, rotation=motion.rotation)


@pytest.fixture(scope="module")
def simulated():
    rng = np.random.default_rng(0)
    return [recording(f"{k:03}", rng) for k in range(9)]


def test_simulated_tosses_give_friction_and_mass_distribution_and_predict_others(simulated):
    row = tosses.case(simulated, 6, 3).run(lambda text: None)
    order = np.random.default_rng(3).permutation(9).tolist()
    assert 2 in order[:6]  # the fit includes the corrupted one
    assert row["mu"] == pytest.approx(MU, rel=0.05)
    center = float(row["center z, mm interval"].split()[0])
    assert center == pytest.approx(1e3 * CENTER, abs=0.7)
    assert float(row["inertia, g m^2 interval"].split()[0]) == pytest.approx(1e3 * INERTIA, rel=0.1)
    assert CORRUPTED in row["outliers"]
    assert row["position"] < 6.0
    assert row["rotation"] < 4.0


def test_errors_of_a_prediction_vanish_for_the_same_model(simulated):
    """Predictions with the true values differ from the recordings only by the time step and noise."""
    others = [own for own in simulated if own.name != CORRUPTED]
    fit = type("TrueValues", (), {"scene": tosses.trial(others[0]).scene.with_values(TRUTH)})
    position, angle = tosses.predict(fit, others)
    assert position.shape == angle.shape == (8,)
    assert float(position.median()) < 3.0
    assert float(angle.median()) < 3.0


def test_recorded_velocities_are_half_a_frame_old(tmp_path):
    table = np.zeros((4, 13), dtype=np.float32)
    table[:, 6] = 2.0
    table[:, 7:10] = (1.0, 0.0, -0.5)
    np.savez(tmp_path / tosses.FILE, **{"001": table})
    (own,) = tosses.load_tosses(tmp_path)
    assert own.name == "001"
    assert len(own) == 4
    torch.testing.assert_close(own.rotation[0], torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64))
    assert own.velocity.tolist() == pytest.approx([1.0, 0.0, -0.5 - 9.81 / 296])


def test_missing_recordings_are_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"cube_tosses\.npz"):
        tosses.load_tosses(tmp_path)


@pytest.mark.skipif(not (REAL / tosses.FILE).is_file(), reason=f"no recordings: {tosses.FILE} is not in ../shared/real")
def test_six_recorded_tosses_predict_others():
    row = tosses.case(tosses.load_tosses(REAL)[:18], 6, 0).run(lambda text: None)
    assert 0.1 < row["mu"] < 0.3
    assert row["position"] < 20.0
    assert row["rotation"] < 20.0
