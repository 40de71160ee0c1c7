"""The report of an estimate: its page is self-contained, states the values, and works in a browser."""

import json
import re

import pytest
from tests.report.browser import CHROMIUM, NO_CHROMIUM, open_page

import gradsim as gs
from gradsim.report.comparison import comparison_video
from gradsim.report.fit_page import write_report
from gradsim.report.summary_text import fit_summary, relative_half_width, round_to_interval


def thrown(mass=3.7, velocity=(1.0, 1.5, 0.0)) -> gs.Scene:
    push = gs.Push(impulse=(4.0, 0.0, -1.0), point=(0.0, 0.1, 0.0))
    cube = gs.Rigid("cube", gs.meshes.box(0.7), mass=mass, position=(-0.8, -0.3, 0.0), velocity=velocity, pushes=[push])
    return gs.Scene([cube], camera=gs.Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=40))


def unknown_scene() -> gs.Scene:
    return thrown(gs.unknown(5.0, low=1.0, high=20.0), gs.unknown((0.8, 1.2, 0.1), low=-4.0, high=4.0))


@pytest.fixture(scope="module")
def fit():
    scene = thrown()
    trajectory = gs.simulate(scene, frames=10, fps=20, substeps=8, integrator=gs.Midpoint())
    return gs.estimate(unknown_scene(), gs.render(scene, trajectory, (32, 32)), fps=20, substeps=8)


@pytest.fixture(scope="module")
def folder(fit, tmp_path_factory):
    place = tmp_path_factory.mktemp("report") / "out"
    page = write_report(fit, place, title="A <thrown> cube", source="ten frames", command="gradsim estimate a b")
    assert page == place / "report.html"
    return place


def test_page_is_self_contained(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"""(src|href|poster)=["'](?!data:|#)""", page)
    assert not re.search(r"@import|url\((?!data:|#)|<link rel=.stylesheet", page)
    assert re.findall(r"<script[^>]*>", page) == ['<script type="text/plain" class="data">', "<script>"]
    assert "script-src 'sha256-" in page
    assert "A &lt;thrown&gt; cube" in page
    for text in ("cube.mass", "cube.velocity[2]", "95 % interval", "data:video/mp4;base64,", "gradsim estimate a b"):
        assert text in page
    assert sorted(file.name for file in folder.iterdir()) == ["fit.json", "fitted.yaml", "report.html"]


def test_numbers_and_scene_beside_the_page(fit, folder):
    numbers = json.loads((folder / "fit.json").read_text())
    assert numbers["parameters"]["cube.mass"]["value"] == pytest.approx(3.7, rel=1e-6)
    scene = gs.load_scene_file(folder / "fitted.yaml")
    assert float(scene.scene["cube"].mass) == float(fit.values["cube.mass"])
    assert (scene.time.frames, scene.time.fps, scene.time.substeps) == (10, 20.0, 8)


def test_true_values_are_shown_where_known(fit, tmp_path):
    page = write_report(fit, tmp_path, truth={"cube.mass": 3.7}).read_text()
    assert "true value" in page
    assert "side the interval" in page


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("width", [400, 1400])
def test_page_in_a_browser(folder, tmp_path, width):
    observed = open_page(folder / "report.html", tmp_path, width)
    assert observed["size"][1] > 2.9 * observed["size"][0]


def test_states_have_a_report_without_video(tmp_path):
    trajectory = gs.simulate(thrown(), frames=6, fps=20, substeps=8, integrator=gs.Midpoint())
    observed = gs.States({"cube.position": trajectory["cube"].position})
    fit = gs.estimate(thrown(gs.unknown(5.0, low=1.0, high=20.0)), observed, fps=20, substeps=8)
    page = write_report(fit, tmp_path).read_text()
    assert "<video" not in page
    assert "These observations determine the value" in page


def test_undetermined_values_are_reported_first(tmp_path):
    scene = thrown(gs.unknown(5.0, low=1.0, high=20.0))
    scene = scene.with_values({"cube.pushes[0].impulse": (0.0, 0.0, 0.0)})
    truth = scene.with_values({"cube.mass": 3.7})
    trajectory = gs.simulate(truth, frames=4, fps=20, substeps=4, integrator=gs.Midpoint())
    fit = gs.estimate(scene, gs.States({"cube.position": trajectory["cube"].position}), fps=20, substeps=4)
    assert not fit.certain
    tone, head, _ = fit_summary(fit)
    assert (tone, head) == ("bad", "These observations do not determine the requested value.")
    page = write_report(fit, tmp_path).read_text()
    assert "gravity" in fit.undetermined_directions[0]
    assert fit.undetermined_directions[0][1:] in page


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((2.59800123, 2.596941, 2.599062), ("2.5980", "2.5969", "2.5991")),
        ((9728.62, 9716.31, 9740.95), ("9729", "9716", "9741")),
        ((3.2e7, 3.1e7, 3.3e7), ("3.20e+07", "3.10e+07", "3.30e+07")),
        ((1.5, 1.5, 1.5), ("1.5", "1.5", "1.5")),
        ((0.0, -0.02, 0.02), ("0.000", "-0.020", "0.020")),
    ],
)
def test_values_are_rounded_to_their_interval(numbers, shown):
    assert round_to_interval(*numbers) == shown


def test_relative_half_width():
    assert relative_half_width(2.0, 1.9, 2.1) == "± 5 %"
    assert relative_half_width(2.0, 0.0, 8.0) == "± 200 %"
    assert relative_half_width(0.0, -1.0, 1.0) == ""
    assert relative_half_width(1.0, 1 - 1e-9, 1 + 1e-9) == "± 1.0e-09"


def test_differences_are_amplified_to_the_displayable_range(fit):
    comparison = comparison_video(fit.trials[0], fit.values)
    assert comparison.labels == ("observed", "fitted", "difference × 1000")
    off = {path: value * 1.3 for path, value in fit.values.items()}
    assert comparison_video(fit.trials[0], off).labels[2] in ("difference × 1", "difference × 2")
