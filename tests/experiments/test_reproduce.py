"""Experiments: each meets its claims on one or two objects; tables are saved, resumed and checked."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer

import gradsim as gs
from gradsim.cli import reproduce
from gradsim.datasets import objects
from gradsim.experiments import contact, coverage, deformable, many_unknowns, mass, pendula
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, run_experiment
from gradsim.experiments.protocol import record_video
from gradsim.experiments.recovery import max_error_claim


def quiet(text):
    """Discards progress messages."""


@pytest.mark.parametrize("kind", objects.KINDS)
def test_objects_are_closed_and_of_similar_size(kind):
    shape = objects.mesh(kind)
    assert 0.1 < objects.volume(shape) < 1.01
    assert 1.0 <= np.ptp(shape.vertices, axis=0).max() < 1.6
    assert len(shape.vertices) <= 250  # as in the paper
    gs.Rigid("body", shape, density=1.0)  # raises unless closed with outward normals


@pytest.mark.parametrize("kind", ["knot", "star"])
def test_some_objects_are_not_convex(kind):
    import trimesh

    shape = objects.mesh(kind)
    assert objects.volume(shape) < 0.6 * trimesh.Trimesh(shape.vertices, shape.faces).convex_hull.volume


def test_objects_stay_in_view():
    for number in range(20):
        rng = np.random.default_rng([0, number, 0])
        scene = mass.scene(mass.KINDS[number % 8], rng, 5.0, 5.0)
        (video,) = record_video(scene, mass.Time(mass.FRAMES, mass.FPS, mass.SUBSTEPS), 16)
        visible = (video - video[0, 0, 0]).abs().sum(-1) > 0.05
        assert visible.flatten(1).any(1).all(), number


def test_mass_of_one_object(monkeypatch):
    """Fewer frames than the experiment, otherwise the same."""
    monkeypatch.setattr(mass, "FRAMES", 24)
    row = mass.case(0, 0).run(quiet)
    assert row["object"] == "box"
    assert 2.0 <= row["truth"] <= 12.0
    assert 2.0 <= row["start"] <= 12.0
    for name, allowed in mass.ALLOWED.items():
        assert row[name] <= allowed, name


@pytest.mark.parametrize("source", [many_unknowns.STATES, many_unknowns.VIDEO])
def test_velocities_of_a_small_cloth(monkeypatch, source):
    """Nine nodes, five frames and 16 x 16 pixels, otherwise as the experiment."""
    monkeypatch.setattr(many_unknowns, "SHEET", gs.meshes.grid(0.8, 2))
    monkeypatch.setattr(many_unknowns, "SIDE", 16)
    subject = replace(many_unknowns.SUBJECTS[1], frames=5, substeps=24)
    row = many_unknowns.case(subject, source, 0).run(quiet)
    assert row["status"] == "converged"
    assert row["error"] < 0.5 * row["prior"]
    assert row["inside"] >= 0.7  # errors of the nodes are correlated, so that the fraction varies much
    assert 0.7 < row["chi2"] < 1.3
    assert row["identifiable"] + row["weak"] + row["from the prior"] + row["undetermined"] == 27
    assert many_unknowns._claims([row])[-1].ok


def test_contact_of_one_object(monkeypatch):
    """Fewer frames, pixels and substeps than the experiment, otherwise the same."""
    monkeypatch.setattr(contact, "FRAMES", 24)
    monkeypatch.setattr(contact, "SIZE", 32)
    monkeypatch.setattr(contact, "SUBSTEPS", 64)
    row = contact.case(0, 0, eight_bit=False).run(quiet)
    assert row["worst"] <= 1e-6
    assert set(row["verdicts"]) == {"density", "ke", "kd", "kf", "mu"}


@pytest.mark.parametrize("recovery", [*deformable.RECOVERIES, *pendula.RECOVERIES], ids=lambda r: r.name)
def test_parameters_are_recovered(recovery):
    """From the first frames at low resolution; the experiments use more of both."""
    row = replace(recovery, frames=6, side=16).row(quiet)
    assert row["worst"] <= 1e-6
    assert row["status"] == "converged"


@pytest.mark.parametrize("kind", [coverage.NOISY, coverage.COMPRESSED])
def test_interval_widths_match_the_errors(kind):
    row = coverage.case(kind, 0, 0).run(quiet)
    for name in coverage.QUANTITIES:
        assert 0 < row[f"{name} half width"] < 0.1 * row[name]
        assert abs(row[f"{name} error"]) < 3 * row[f"{name} half width"]


def test_held_out_objects_are_disjoint():
    assert len(contact.SEEDS) == 20
    assert len(contact.HELD_OUT) == 10
    assert not set(contact.SEEDS) & set(contact.HELD_OUT)


def table(runs, stop_at=None):
    """Three rows of squares; `runs` records which were computed."""

    def case(k):
        def run(progress):
            if k == stop_at:
                raise KeyboardInterrupt
            runs.append(k)
            return {"number": k, "worst": 1e-3 * k * k}

        return Case(f"case {k}", run)

    columns = (Column("number", "d", 6), Column("worst"), Column("absent"))
    return Experiment("squares", "Squares", columns, tuple(case(k) for k in range(3)), max_error_claim(3e-3))


def test_an_interrupted_table_is_resumed(tmp_path, capsys):
    file, runs = tmp_path / "rows.json", []
    with pytest.raises(typer.Exit) as stopped:
        reproduce.show_experiment(table(runs, stop_at=2), file)
    assert stopped.value.exit_code == 130
    assert "resume" in capsys.readouterr().err
    assert list(json.loads(file.read_text())["rows"]) == ["case 0", "case 1"]
    with pytest.raises(typer.Exit) as failed:
        reproduce.show_experiment(table(runs), file)
    assert runs == [0, 1, 2]
    assert failed.value.exit_code == 1  # 4e-3 is above the bound
    shown = capsys.readouterr().out
    assert "FAIL largest relative error: 0.004 (at most 0.003)" in shown
    assert "     2     4.0e-03           -" in shown


def test_a_file_of_another_experiment_is_rejected(tmp_path):
    file = tmp_path / "rows.json"
    list(run_experiment(table([]), file))
    with pytest.raises(gs.InvalidInput, match="contains rows of squares"):
        next(run_experiment(replace(table([]), name="cubes"), file))
    file.write_text("[1, 2]")
    with pytest.raises(gs.InvalidInput, match="not a table"):
        next(run_experiment(table([]), file))


def test_claims():
    assert Claim("share", 0.95, 0.98, 0.9).ok
    assert not Claim("share", 0.99, 0.98, 0.9).ok
    assert not Claim("share", 0.85, 0.98, 0.9).ok
    assert not Claim("largest error of no rows", float("nan"), 1.0).ok
    assert str(Claim("share", 0.95, 0.98, 0.9)) == "share: 0.95 (at most 0.98 and at least 0.9)"
