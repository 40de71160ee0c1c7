"""Trajectories in files: restored bit for bit from .npz, and as measured states from .csv."""

import numpy as np
import pytest
import torch

import gradsim as gs


def scene_of(mass=1.0, cells=2) -> gs.Scene:
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=mass, velocity=(1.0, 2.0, 0.0), angular_velocity=(0.0, 3.0, 1.0))
    pendulum = gs.DoublePendulum("pendulum", lengths=(0.5, 0.4), angles=(0.4, 0.9))
    sheet = gs.Cloth("sheet", gs.meshes.grid(0.5, cells), mass=0.1, position=(1.0, 0.0, 0.0))
    return gs.Scene([cube, pendulum, sheet])


@pytest.fixture(scope="module")
def trajectory():
    return gs.simulate(scene_of(), frames=5, fps=20, substeps=160)


def test_states_are_restored_exactly(trajectory, tmp_path):
    gs.save_trajectory(tmp_path / "motion.npz", trajectory)
    loaded = gs.load_trajectory(tmp_path / "motion.npz", scene_of())
    assert torch.equal(loaded.vertices, trajectory.vertices)
    assert torch.equal(loaded["cube"].angular_velocity, trajectory["cube"].angular_velocity)
    assert torch.equal(loaded.time, trajectory.time)
    onward = [gs.simulate(scene_of(), frames=2, fps=20, substeps=160, start=t.final) for t in (loaded, trajectory)]
    assert torch.equal(onward[0].vertices, onward[1].vertices)


def test_batches_are_restored(tmp_path):
    mass = torch.tensor([1.0, 2.0], dtype=torch.float64)
    push = gs.Push(impulse=(1.0, 0.0, 0.0))
    scene = gs.Scene([gs.Rigid("cube", gs.meshes.box(0.4), mass=mass, pushes=[push])])
    trajectory = gs.simulate(scene, frames=3, substeps=8)
    gs.save_trajectory(tmp_path / "motion.npz", trajectory)
    assert torch.equal(gs.load_trajectory(tmp_path / "motion.npz", scene).vertices, trajectory.vertices)
    with pytest.raises(gs.InvalidInput, match="one world"):
        gs.save_trajectory(tmp_path / "motion.csv", trajectory)


def test_tables_are_measured_states(trajectory, tmp_path):
    gs.save_trajectory(tmp_path / "motion.csv", trajectory)
    states = gs.load_states(tmp_path / "motion.csv")
    for path in ("cube.position", "cube.rotation", "cube.angular_velocity", "pendulum.angle", "sheet.position"):
        body, attribute = path.split(".")
        expected = getattr(trajectory[body], attribute)
        assert np.allclose(states.values[path], expected, rtol=0, atol=1e-14)  # rotations are normalized again


def test_files_of_other_scenes_and_kinds_are_refused(trajectory, tmp_path):
    gs.save_trajectory(tmp_path / "motion.npz", trajectory)
    with pytest.raises(gs.errors.WrongShape, match="give its own scene"):
        gs.load_trajectory(tmp_path / "motion.npz", scene_of(cells=3))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(gs.InvalidInput, match="no states"):
        gs.load_trajectory(tmp_path / "other.npz", scene_of())
    (tmp_path / "broken.npz").write_bytes(b"broken")
    with pytest.raises(gs.InvalidInput, match="must be a .npz file"):
        gs.load_trajectory(tmp_path / "broken.npz", scene_of())
    with pytest.raises(gs.InvalidInput, match="must end in"):
        gs.save_trajectory(tmp_path / "motion.txt", trajectory)
    with pytest.raises(gs.InvalidInput, match="save it as .csv"):
        gs.save_trajectory(tmp_path / "motion.npz", trajectory.sample([0.01, 0.02]))
