"""The report of a control: its page is self-contained, states the result, and works in a browser."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.report.browser import CHROMIUM, NO_CHROMIUM, open_page

import gradsim as gs
from gradsim.report.plan_charts import signal_charts
from gradsim.report.plan_page import _default_size
from gradsim.report.summary_text import plan_summary

TIME = {"frames": 8, "fps": 20.0, "substeps": 4, "integrator": gs.SymplecticEuler()}
FILES = ["control.npz", "plan.json", "plan.yaml", "reached.mp4", "report.html"]
CAMERA = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=40)


def thrown(velocity, camera=CAMERA) -> gs.Scene:
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, position=(-0.5, -0.3, 0.0), velocity=velocity)
    return gs.Scene([cube], camera=camera, background=(0.0, 0.0, 0.0))


def height(trajectory):
    return trajectory["cube"].position[..., -1, 1] ** 2


@pytest.fixture(scope="module")
def throw():
    """A plan of two stages and two goals: a silhouette in the last frame, colours and silhouette in the middle."""
    truth = thrown((2.5, 3.0, 0.0))
    motion = gs.simulate(truth, **TIME)
    video = gs.render(truth, motion, (24, 24), alpha=True)
    goals = [gs.GoalImage(video[-1, :, :, 3:]), gs.GoalImage(video[4], frames=[4])]
    scene = thrown(gs.unknown((1.0, 2.0, 0.0), low=-6.0, high=6.0))
    stages = [(gs.Moments(), gs.GaussNewton(iterations=3)), (gs.Blur(), gs.GaussNewton(iterations=8))]
    return gs.control(scene, goals, stages=stages, metric=height, **TIME)


@pytest.fixture(scope="module")
def wriggle():
    """A plan with a policy over the elements of a beam and a state as its goal."""
    mesh = gs.meshes.tet_box((1.0, 0.2, 0.2), (4, 1, 1))
    beam = gs.Soft("beam", mesh, density=10.0, material=gs.NeoHookean(1e4, 1e4, 10.0))
    scene = gs.Scene([beam], camera=CAMERA, gravity=(0.0, 0.0, 0.0))
    goal = gs.GoalState({"beam.velocity": torch.tensor([0.1, 0.0, 0.0], dtype=torch.float64)})
    policy = {"beam.actuation": gs.Sinusoids(len(mesh.tets), waves=3, frequency=9.0)}
    stages = [(gs.Cumulative(), gs.Adam(3))]
    time = {"frames": 5, "fps": 60, "substeps": 8, "integrator": gs.SymplecticEuler()}
    return gs.control(scene, goal, policy, stages=stages, **time)


@pytest.fixture(scope="module")
def folder(throw, tmp_path_factory):
    place = tmp_path_factory.mktemp("plan") / "out"
    options = {"title": "A <throw>", "source": "to a place", "watched": "height", "command": "gradsim control throw"}
    assert gs.write_plan(throw, place, **options, size=(64, 64)) == place / "report.html"
    return place


def test_page_is_self_contained(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(src|href|poster)=["'](?!data:|#)""", page)
    assert not re.search(r"@import|url\((?!data:|#)|<link rel=.stylesheet", page)
    for text in ("A &lt;throw&gt;", "to a place", "cube.velocity", "data:video/mp4;base64,", "gradsim control throw"):
        assert text in page
    assert page.count("data:image/png;base64,") == 3  # two goals, and the video's poster
    assert "Silhouettes of 24 x 24" in page
    assert "Images of 24 x 24 pixels at frame 4 of 7" in page
    assert "2 stages" in page
    assert sorted(file.name for file in folder.iterdir()) == FILES


def test_numbers_video_and_scene_beside_the_page(throw, folder):
    numbers = json.loads((folder / "plan.json").read_text())
    assert numbers["values"]["cube.velocity"] == pytest.approx([2.5, 3.0, 0.0], abs=1e-6)
    assert np.load(folder / "control.npz")["cube.velocity"].shape == (3,)
    video = gs.load_video(folder / "reached.mp4")
    assert (len(video), video.size, video.fps) == (8, (64, 64), 20.0)
    file = gs.load_scene_file(folder / "plan.yaml")
    assert (file.time.frames, file.time.fps, file.time.substeps) == (8, 20.0, 4)
    again = gs.simulate(file.scene, **TIME)["cube"].position
    torch.testing.assert_close(again, throw.trajectory["cube"].position)


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("width", [400, 1400])
def test_page_in_a_browser(folder, tmp_path, width):
    assert open_page(folder / "report.html", tmp_path, width)["size"] == [64, 64]


def test_policy_outputs_are_plotted_and_saved(wriggle, tmp_path):
    page = gs.write_plan(wriggle, tmp_path, size=(32, 32)).read_text()
    assert "beam.actuation of each tet, sorted by phase" in page
    assert "The goal is a state: beam.velocity at 1 frame" in page
    assert f"{wriggle.best.policy_outputs['beam.actuation'].shape[1]} × 3 values" in page
    scene = gs.load_scene(tmp_path / "plan.yaml")
    assert np.array_equal(scene["beam"].actuation.values.values, wriggle.best.policy_outputs["beam.actuation"].numpy())
    assert "All iterations were used" in page


def test_few_signals_are_drawn_as_lines(wriggle):
    few = {"beam.actuation": wriggle.best.policy_outputs["beam.actuation"][:, :3]}
    titles = [title for title, _ in signal_charts(replace(wriggle, best=replace(wriggle.best, policy_outputs=few)))]
    assert titles == ["beam.actuation"]


def test_summary(throw):
    tone, head, text = plan_summary(throw, "height")
    assert tone == "good"
    assert head.startswith(f"Iterate {throw.best.number} of {throw.last.number} is closest")
    assert "in the last of 2 stages" in text
    assert "Height: " in text


def test_the_video_has_the_aspect_ratio_of_the_goal(throw):
    assert _default_size(throw) == (264, 264)  # 11 times 24
    wide = replace(throw, goals=(gs.GoalImage(torch.zeros(95, 190, 1)),))
    assert _default_size(wide) == (286, 570)
    assert _default_size(replace(throw, goals=())) == (256, 256)


def test_without_a_camera_there_is_no_video(tmp_path):
    scene = thrown(gs.unknown((1.0, 2.0, 0.0)), camera=None)
    goal = gs.GoalState({"cube.position": torch.tensor([0.3, 0.2, 0.0], dtype=torch.float64)})
    plan = gs.control(scene, goal, stages=[(gs.Blur(), gs.GaussNewton(iterations=3))], **TIME)
    page = gs.write_plan(plan, tmp_path).read_text()
    assert "<video" not in page
    assert not (tmp_path / "reached.mp4").exists()
