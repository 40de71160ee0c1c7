"""Objects in notebooks: scenes and trajectories in 3D, videos as frames, fits and plans as tables; all text escaped."""

import copy
import pickle

import pytest
import torch
from tests.report.test_report import thrown, unknown_scene

import gradsim as gs


def test_scene_shows_bodies_and_unknowns():
    html = unknown_scene()._repr_html_()
    for text in ("<iframe", "cube", "Rigid", "8 vertices, 12 faces", "cube.mass", "unknown(5, low=1, high=20)", "kg"):
        assert text in html


def test_names_are_escaped():
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0)
    wall = gs.StaticBox(mu=gs.unknown(0.5, low=0.1, high=1.0))
    html = gs.Scene([cube], shapes={"<script>": wall})._repr_html_()
    body = html.partition("</iframe>")[2]
    assert "<script>" not in body
    assert "&lt;script&gt;.mu" in body


def test_trajectory_is_an_animation_and_slices_keep_their_scene():
    trajectory = gs.simulate(thrown(), frames=5, fps=20, substeps=4)
    html = trajectory._repr_html_()
    assert "autoplay" in html
    assert "5 frames from 0 s to 0.2 s: cube" in html
    assert "3 frames from 0.05 s" in trajectory[1:4]._repr_html_()
    assert "<iframe" in trajectory.sample([0.03, 0.08])._repr_html_()


def test_copies_of_a_trajectory_leave_the_scene_behind():
    mass = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        trajectory = gs.simulate(thrown(2.0 * mass), frames=3, fps=20, substeps=4)
    for made in (copy.deepcopy(trajectory), pickle.loads(pickle.dumps(trajectory))):
        assert made.scene is None
        assert torch.equal(made.vertices, trajectory.vertices)
        assert "<iframe" not in made._repr_html_()


def test_batches_show_their_first_world():
    velocity = torch.zeros(4, 3, dtype=torch.float64)
    html = gs.simulate(thrown(velocity=velocity), frames=3, fps=20, substeps=4)._repr_html_()
    assert "world 0 of a batch (4,)" in html


def test_smoke_is_a_video():
    smoke = gs.Smoke("smoke", size=(16, 16), density=1.0, velocity=(0.1, 0.0))
    html = gs.simulate(gs.Scene([smoke]), frames=4, fps=20, substeps=2)._repr_html_()
    assert "data:video/mp4" in html


def test_video_is_a_strip_of_frames():
    html = gs.Video(torch.rand(9, 16, 20, 3), 30.0)._repr_html_()
    assert html.count("data:image/png") == 1
    assert "9 frames of 16 x 20 at 30 fps" in html


def test_fit_is_a_table_of_values():
    trajectory = gs.simulate(thrown(), frames=6, fps=20, substeps=8)
    observed = gs.States({"cube.position": trajectory["cube"].position})
    scene = thrown(gs.unknown(5.0, low=1.0, high=20.0))
    html = gs.estimate(scene, observed, fps=20, substeps=8)._repr_html_()
    for text in ("cube.mass", "95 % interval", "kg", "identifiable"):
        assert text in html


def test_plan_shows_its_control_and_motion():
    scene = thrown(velocity=gs.unknown((0.0, 0.0, 0.0), low=-5.0, high=5.0))
    goal = gs.GoalState({"cube.position": torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)})
    plan = gs.control(scene, goal, frames=6, fps=20, substeps=4)
    html = plan._repr_html_()
    for text in ("<iframe", "cube.velocity", "loss"):
        assert text in html


def test_objects_without_html_of_their_own_are_text():
    from gradsim.scene.html import to_html

    assert to_html("<b>") == pytest.approx("<pre>&lt;b&gt;</pre>")
