"""The paper's further tables and figures, and the page that shows them."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.experiments.paper import (
    charts,
    cues,
    deformable,
    determined,
    imperfect,
    landscapes,
    parts,
    quantities,
    timing,
)
from gradsim.report.document import Chapter, Chart, Picture, Table, write_document
from gradsim.scene.bodies import Soft
from gradsim.scene.rigid import Rigid


def test_minima_of_curves_and_grids():
    assert landscapes.local_minima([3.0, 1.0, 2.0, 0.5, 4.0]) == 2
    assert landscapes.local_minima([1.0, 2.0, 3.0]) == 1
    x, y = np.meshgrid(np.arange(-2.0, 3.0), np.arange(-2.0, 3.0))
    assert landscapes.grid_minima(x**2 + y**2) == 1
    assert landscapes.grid_minima((x**2 - 1) ** 2 + y**2) == 2


def test_the_loss_over_the_mass_is_lowest_at_the_truth(monkeypatch):
    monkeypatch.setattr(landscapes, "MASSES", (0.5, 0.9, 1.0, 1.1, 2.0))
    monkeypatch.setattr(landscapes, "SIDE", 32)
    landscapes._squared_errors.cache_clear()
    rows = [landscapes.mass_case(name).run(lambda text: None) for name in ("all frames", "first 10 frames")]
    landscapes._squared_errors.cache_clear()
    assert [row["minimum"] for row in rows] == [1.0, 1.0]
    assert all(row["losses"][2] == 0.0 and min(row["losses"][:2]) > 0.0 for row in rows)


def test_what_reinforce_minimizes_depends_on_its_estimate(monkeypatch):
    """The product is lowest where samples are unlikely and their reward is below the mean, not at the true mass."""
    masses = tuple(np.linspace(0.2, 1.8, 17).round(2).tolist())
    monkeypatch.setattr(landscapes, "MASSES", masses)
    monkeypatch.setattr(landscapes, "_bullet_losses", lambda: (np.array(masses) - 1.0) ** 2)
    rows = [landscapes.reinforce_case(mean).run(lambda text: None) for mean in (0.2, 1.8)]
    assert [row["minimum"] for row in rows] == [1.8, 0.2]
    assert rows[0]["products"] == pytest.approx(rows[1]["products"][::-1])
    assert landscapes.claims(rows) == []  # not a loss that must be lowest at the truth
    assert len(charts.landscape_charts(rows)) == 1


@pytest.mark.parametrize("kind", list(quantities.examples()))
def test_every_marked_parameter_has_a_gradient(kind):
    """The gradient of each column's first parameter along a random direction equals a central difference."""
    scene = quantities.examples()[kind]
    listed = quantities.paths(scene)
    assert len(listed) >= quantities.PAPER.get(kind, 1)
    values = {path: torch.as_tensor(np.asarray(value), dtype=torch.float64) for path, value, _ in _quantities(scene)}
    generator = torch.Generator().manual_seed(0)

    def loss(path, change):
        moved = scene.with_values({path: values[path] + change})
        motion = gs.simulate(moved, frames=3, fps=60.0, substeps=32)[moved.bodies[0].name]
        shown = motion.densities if kind == "smoke" else motion.vertices
        weights = torch.randn(shown.shape[-3:], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        return (shown * weights).sum()

    for column, found in listed.items():
        path = found[0]
        direction = torch.randn(values[path].shape, generator=generator, dtype=torch.float64)
        step = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(loss(path, step * direction), step)
        h = 1e-6 * max(1.0, float(values[path].abs().max()))
        with torch.no_grad():
            difference = (loss(path, h * direction) - loss(path, -h * direction)) / (2 * h)
        assert float(gradient) == pytest.approx(float(difference), rel=1e-4, abs=1e-7), (column, path)
        assert float(gradient) != 0.0, (column, path)


def _quantities(scene):
    """The quantities of the columns; those that stand for several elements keep their shape."""
    chosen = {found[0] for found in quantities.paths(scene).values()}
    return [item for item in scene.quantities() if item[0] in chosen]


def test_table_6_has_what_the_paper_has():
    table = quantities.table()
    assert set(table["rigid body"]) >= {"pos", "vel", "mass", "rot", "g", "mu", "e", "ext forces"}
    assert set(table["deformable solid"]) >= {"pos", "vel", "mass", "stiff", "damp", "actuation", "g", "mu", "e"}
    assert "rest" in table["springs"]


@pytest.mark.parametrize("model", list(imperfect.MODELS))
def test_a_wrong_model_differs_only_in_what_it_says(model):
    declared = imperfect.MODELS[model]
    for kind in declared.kinds:
        own = imperfect.subject(declared, kind, 0, 0)
        assert own.path in own.fitted.unknowns
        filled = own.fitted.with_values({own.path: own.density})
        changed = {
            path
            for (path, a, _), (_, b, _) in zip(own.true.quantities(), filled.quantities(), strict=False)
            if not np.array_equal(np.asarray(a), np.asarray(b))
        }
        types = type(own.true.bodies[0]), type(filled.bodies[0])
        if model == "no friction":
            assert changed == {"ground.mu"}
        elif model == "elastic collisions":
            assert changed == {"ground.kd"}
        elif model == "rigid as deformable":
            assert types == (Rigid, Soft)
        elif model == "deformable as rigid":
            assert types == (Soft, Rigid)
        else:
            assert changed == set()


def test_honest_rows_are_inside_or_not_certain():
    row = {"model": "no friction", "error": 0.3, "inside": "no", "certain": "no"}
    rows = [row, {**row, "inside": "yes", "certain": "yes"}, {**row, "certain": "yes"}]
    assert imperfect.means(rows)["no friction"]["honest"] == pytest.approx(2 / 3)
    assert not imperfect.claims(rows)[0].ok


def test_deformable_instances_start_off_the_truth():
    for kind, build in deformable.INSTANCES.items():
        own = build(0, 0)
        assert set(own.truth) == set(own.names.values()) == set(own.scene.unknowns)
        guesses = {path: np.asarray(item.guess) for path, item in own.scene.unknowns.items()}
        assert all(guesses[path].shape == value.shape for path, value in own.truth.items()), kind
        assert all(np.linalg.norm(guesses[p] - v) > 0.05 * np.linalg.norm(v) for p, v in own.truth.items()), kind


@pytest.mark.parametrize("kind", determined.KINDS)
@pytest.mark.parametrize("method", [deformable.VIDEO, deformable.STATES])
def test_singular_values_are_those_of_relative_changes(monkeypatch, kind, method):
    """A change of all unknowns at once changes the observation as the Jacobian says."""
    monkeypatch.setattr(determined, "SIDE", 16)
    subject = deformable.INSTANCES[kind](0, 0, coarse=True)
    subject = dataclasses.replace(subject, time=dataclasses.replace(subject.time, frames=12))
    J = determined.jacobian(subject, method)
    assert len(J) == subject.size
    ((path, true),) = subject.truth.items()
    size = true if kind == "ball" else np.sqrt((true**2).mean())
    direction = np.random.default_rng(0).normal(size=true.shape)

    def observed(step):
        scene = subject.scene.with_values({path: torch.as_tensor(true + step * size * direction)})
        trajectory, (video,) = determined.record(scene, subject.time, 16)
        return (video if method == deformable.VIDEO else trajectory[kind].vertices).flatten()

    with torch.no_grad():
        change = (observed(1e-5) - observed(-1e-5)) / 2e-5
    expected = torch.as_tensor(direction).flatten() @ J
    assert float((change - expected).norm() / expected.norm()) < 1e-4


def test_timing_measures_four_rates(monkeypatch):
    monkeypatch.setattr(timing, "SECONDS", 0.01)
    row = timing.case(100).run(lambda text: None)
    assert all(row[name] > 0.0 for name in timing.NAMES)
    assert row["forward physics"] > row["backward physics"]


def test_adam_reduces_the_error_of_the_mass():
    row = cues.case("texture", 2.0, 3).run(lambda text: None)
    assert len(row["errors"]) == 4
    assert row["errors"][3] < row["errors"][0]


def test_chapters_of_rows(tmp_path):
    rows = [
        {"method": method, "object": "box", "truth": 1.0, "estimate": 1.1, "absolute": 0.1, "mass": 0.1, "seconds": 2.0}
        for method in ("average", "gradsim")
    ]
    listed = parts.parts(tmp_path, quick=True, bullet=False, mitsuba=False)
    assert [part.name for part in listed][:2] == ["table-1", "table-2"]
    chapter = listed[0].chapter(rows)
    assert "PyBullet + REINFORCE was left out" in chapter.text[1]
    assert chapter.tables[0].rows[1] == ("gradsim, from video", "1.0e-01 (2.4e-05)", "1.0e-01 (9.0e-05)", "2.0")


def test_a_document_is_a_page_and_markdown(tmp_path):
    chapter = Chapter(
        "A title & more",
        ("A <paragraph>.",),
        (Table(("name", "value"), (("a|b", "1"),)),),
        (Chart("curve", lambda axes: axes.plot([0, 1], [1, 0]), "x"),),
        (Picture(torch.rand(8, 8, 3, generator=torch.Generator().manual_seed(0)), ("left",), "a caption"),),
    )
    page = write_document(tmp_path, "page", "Title", "source", [chapter, dataclasses.replace(chapter)], "footer")
    html, text = page.read_text(), (tmp_path / "page.md").read_text()
    assert "A title &amp; more" in html
    assert "A &lt;paragraph&gt;." in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "| name | value |" in text
    assert sorted(file.name for file in (tmp_path / "images").iterdir()) == [
        "page-01-chart-1.png",
        "page-01-picture-1.png",
        "page-02-chart-1.png",
        "page-02-picture-1.png",
    ]
