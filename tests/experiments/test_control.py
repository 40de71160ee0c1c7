"""The table of control: its rows, what is claimed of them, and its pictures."""

import json
from dataclasses import replace

import pytest
import typer
from tests.experiments.small import throw

import gradsim as gs
from gradsim.cli import reproduce
from gradsim.experiments.control import gear
from gradsim.experiments.control.catalogue import KINDS, Subject, kind_of
from gradsim.experiments.control.table import case, claims, curve, experiment
from gradsim.experiments.control.task import Method


def quiet(text):
    """Nobody is told."""


@pytest.fixture
def thrown(monkeypatch):
    """Throws in place of the gear's tasks, which take minutes."""
    monkeypatch.setattr(gear, "task", throw)
    monkeypatch.setattr(gear, "at_rest", throw, raising=False)


def test_a_row_has_the_error_of_every_iterate(thrown):
    told = []
    row = case(kind_of(Subject.GEAR), Method.IMAGE, 3).run(told.append)
    assert (row["task"], row["method"], row["seed"], row["about"]) == ("gear", "image", 3, "where throw 3 led")
    assert row["first"] == row["errors"][0] > 0.05
    assert row["last"] == row["errors"][-1] < 1e-12
    assert row["hidden"] < 1e-6  # of the velocity that was hidden
    assert row["paper"] == gear.PAPER[39]
    assert len(row["errors"]) == len(row["losses"]) == len(row["stages"]) == len(told) > 2
    assert set(row["stages"]) == {0, 1}
    assert told[0].startswith("iterate 0 of 12, loss ")
    json.dumps(row, allow_nan=False)


def test_methods_are_told_more_or_less(thrown):
    rows = {method: case(kind_of(Subject.GEAR), method, 0).run(quiet) for method in Method}
    assert rows[Method.STATE]["last"] < 1e-12
    assert rows[Method.RANDOM]["best"] > 1e-3
    assert len(rows[Method.RANDOM]["errors"]) == 4
    assert rows[Method.RANDOM]["paper"] is None


def test_half_a_search_is_no_row(thrown, monkeypatch):
    plan = throw(0).shortened(1).run()
    monkeypatch.setattr(gear, "task", lambda seed: _Stopped(replace(plan, status="interrupted")))
    with pytest.raises(KeyboardInterrupt):
        case(kind_of(Subject.GEAR), Method.IMAGE, 0).run(quiet)


class _Stopped:
    def __init__(self, plan):
        self.plan = plan

    def iterates(self, method):
        return 1

    def run(self, method, progress):
        return self.plan


def test_cases_are_told_apart_and_seeds_held_out(thrown):
    asked = experiment([Subject.GEAR], seeds=2)
    assert len({c.key for c in asked.cases}) == len(asked.cases) == 2 * 3 * 2  # kinds, methods, seeds
    assert "gear 0.107 from a picture; gear 0.082 from states" in asked.paper
    kept = experiment([Subject.GEAR], [Method.IMAGE], held_out=True)
    assert not {c.key for c in kept.cases} & {c.key for c in experiment([Subject.GEAR]).cases}


def row(task, last, method="image", **more):
    return {"task": task, "method": method, "last": last, "errors": [1.0, 0.5, 0.2, last], "hidden": None, **more}


def test_claims_are_about_searches_from_a_picture():
    rows = [row("walker", 0.04), row("gear", 0.005), row("gear", 0.02), row("gear", 9.0, "random")]
    rows += [row("gear at rest", 5.0), row("cloth posed", 0.004)]
    rows += [row("cloth hidden", 0.0, hidden=value) for value in (1e-8, 1e-9, 1e-7, 0.3, 1e-7)]
    found = {claim.what: claim for claim in claims(rows)}
    assert len(found) == 5
    missed = [what for what, claim in found.items() if not claim.ok]
    assert missed == ["gear: mean error at the end"]  # 0.0125
    assert claims([row("gear", 9.0, "random")]) == []
    late = row("walker", 0.01) | {"errors": [1.0, 0.5, 0.2, 0.06, 0.01]}
    assert not claims([late])[0].ok  # after three updates, not at the end


def test_of_draws_the_best_so_far_is_drawn():
    losses = {"losses": [2.0, 3.0, 1.0, 4.0], "errors": [0.5, 0.1, 0.7, 0.2]}
    assert curve({"method": "image", **losses}) == [0.5, 0.1, 0.7, 0.2]
    assert curve({"method": "random", **losses}) == [0.5, 0.5, 0.7, 0.7]


def test_the_command_keeps_rows_and_draws(thrown, tmp_path, capsys, monkeypatch):
    words = {"only": [Subject.GEAR], "method": [Method.IMAGE, Method.RANDOM], "seeds": 2, "held_out": False}
    file, plots = tmp_path / "rows.json", tmp_path / "plots"
    reproduce.control(**words, plots=plots, as_json=file)
    shown = capsys.readouterr().out
    assert "ok   gear: mean error at the end" in shown
    assert len(json.loads(file.read_text())["rows"]) == 8
    assert sorted(picture.name for picture in plots.iterdir()) == ["gear-at-rest.png", "gear.png"]
    assert all(picture.stat().st_size > 10_000 for picture in plots.iterdir())
    monkeypatch.setattr(gear, "task", None)  # the rows are there: nothing is run again
    reproduce.control(**words, plots=None, as_json=file)
    assert "ok   gear: mean error at the end" in capsys.readouterr().out


def test_a_miss_is_a_miss_after_the_pictures(thrown, tmp_path):
    bad = {"task": "gear", "method": "image", "seed": 0, "last": 1.0, "errors": [2.0, 1.0], "hidden": None}
    asked = experiment([Subject.GEAR], [Method.IMAGE], 1)
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"experiment": "control", "rows": {c.key: bad for c in asked.cases}}))
    drawn = []
    with pytest.raises(typer.Exit):
        reproduce._show(asked, file, drawn.append)
    assert len(drawn[0]) == 2


def test_kinds():
    assert kind_of(Subject.CLOTH).goal == "posed"
    assert kind_of(Subject.GEAR, "rest").name == "gear at rest"
    with pytest.raises(gs.InvalidInput, match="the walker has place"):
        kind_of(Subject.WALKER, "posed")
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert kind_of(Subject.GEAR, "rest").paper(Method.IMAGE) == {}


def test_a_method_that_a_task_lacks():
    task = throw(0)
    task = replace(task, stages={Method.IMAGE: task.stages[Method.IMAGE]})
    with pytest.raises(gs.InvalidInput, match="throw has image"):
        task.run(Method.RANDOM)


def test_fewer_iterations():
    task = throw(0).shortened(1)
    assert task.iterates(Method.IMAGE) == 4  # the start and a step, twice
    assert len(task.run().history) == 4
    assert task.iterates(Method.RANDOM) == 1


def test_ctrl_c_as_a_stage_begins_keeps_the_stage_before(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gs.Blur, "residuals", stop)  # of the second stage
    plan = throw(0).run()
    assert plan.status == "interrupted"
    assert plan.last.number == plan.history[-1].number
    assert {iterate.stage for iterate in plan.history} == {0}
    assert plan.best.loss == min(iterate.loss for iterate in plan.history)
    monkeypatch.setattr(gs.Moments, "residuals", stop)  # of the first: there is nothing to keep
    with pytest.raises(KeyboardInterrupt):
        throw(0).run()
