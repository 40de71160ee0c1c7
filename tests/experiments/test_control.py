"""The control experiment: its rows, claims and plots."""

import json
from dataclasses import replace

import pytest
import typer
from tests.experiments.small import throw

import gradsim as gs
from gradsim.cli import reproduce
from gradsim.experiments.control import gear
from gradsim.experiments.control.catalogue import TASK_FAMILIES, Subject, find_family
from gradsim.experiments.control.experiment import case, claims, curve, experiment
from gradsim.experiments.control.panels import joined_panels
from gradsim.experiments.control.task import Method
from gradsim.report.media import GAP


def quiet(text):
    """Discards progress messages."""


@pytest.fixture
def thrown(monkeypatch):
    """Replaces the gear's tasks, which take minutes, by throws."""
    monkeypatch.setattr(gear, "task", throw)
    monkeypatch.setattr(gear, "at_rest", throw, raising=False)


def test_a_row_has_the_error_of_every_iterate(thrown):
    messages = []
    row = case(find_family(Subject.GEAR), Method.IMAGE, 3).run(messages.append)
    assert (row["task"], row["method"], row["seed"], row["about"]) == ("gear", "image", 3, "the end of throw 3")
    assert row["first"] == row["errors"][0] > 0.05
    assert row["last"] == row["errors"][-1] < 1e-12
    assert row["hidden"] < 1e-6  # relative error of the hidden velocity
    assert row["paper"] == gear.PAPER[39]
    assert len(row["errors"]) == len(row["losses"]) == len(row["stages"]) == len(messages) > 2
    assert set(row["stages"]) == {0, 1}
    assert messages[0].startswith("iterate 0 of 12, loss ")
    json.dumps(row, allow_nan=False)


def test_panels_show_start_result_and_goal(thrown):
    row = case(find_family(Subject.GEAR), Method.IMAGE, 3).run(quiet)
    picture = joined_panels(row["panels"])
    height, width, _ = picture.shape
    assert height == 384  # 16 pixels, enlarged
    assert width == 3 * height + 2 * GAP
    start, reached, goal = (picture[::24, k * (height + GAP) : k * (height + GAP) + height : 24] for k in range(3))
    goal_image = throw(3).goals[Method.IMAGE][0].images[0, ..., :3]
    assert float((goal - goal_image).abs().max()) < 0.5 / 255 + 1e-6
    assert float((reached - goal).abs().max()) <= 1.5 / 255
    assert float((start - goal).abs().max()) > 0.3
    assert "panels" not in case(find_family(Subject.GEAR), Method.RANDOM, 3).run(quiet)


def test_methods_differ_in_accuracy(thrown):
    rows = {method: case(find_family(Subject.GEAR), method, 0).run(quiet) for method in Method}
    assert rows[Method.STATE]["last"] < 1e-12
    assert rows[Method.RANDOM]["best"] > 1e-3
    assert len(rows[Method.RANDOM]["errors"]) == 4
    assert rows[Method.RANDOM]["paper"] is None


def test_an_interrupted_search_gives_no_row(thrown, monkeypatch):
    plan = throw(0).with_iterations(1).run()
    monkeypatch.setattr(gear, "task", lambda seed: _Interrupted(replace(plan, status="interrupted")))
    with pytest.raises(KeyboardInterrupt):
        case(find_family(Subject.GEAR), Method.IMAGE, 0).run(quiet)


class _Interrupted:
    def __init__(self, plan):
        self.plan = plan

    def iterates(self, method):
        return 1

    def run(self, method, progress):
        return self.plan


def test_case_keys_are_unique_and_held_out_seeds_differ(thrown):
    table = experiment([Subject.GEAR], seeds=2)
    assert len({c.key for c in table.cases}) == len(table.cases) == 2 * 3 * 2  # families, methods, seeds
    assert "gear 0.107 from an image; gear 0.082 from states" in table.paper
    few = experiment([Subject.GEAR], baseline_seeds=1, published=True)
    assert len(few.cases) == len(gear.SEEDS) + 2  # all seeds from an image, one of each baseline
    held_out = experiment([Subject.GEAR], [Method.IMAGE], held_out=True)
    assert not {c.key for c in held_out.cases} & {c.key for c in experiment([Subject.GEAR]).cases}


def row(task, last, method="image", **more):
    return {"task": task, "method": method, "last": last, "errors": [1.0, 0.5, 0.2, last], "hidden": None, **more}


def test_claims_are_about_searches_from_an_image():
    rows = [row("walker", 0.04), row("gear", 0.005), row("gear", 0.02), row("gear", 9.0, "random")]
    rows += [row("gear at rest", 5.0), row("cloth posed", 0.004)]
    rows += [row("cloth hidden", 0.0, hidden=value) for value in (1e-8, 1e-9, 1e-7, 0.3, 1e-7)]
    results = claims(rows)
    assert len(results) == 5
    failed = [claim.description for claim in results if not claim.ok]
    assert failed == ["gear: mean error of the last iterate"]  # 0.0125
    assert claims([row("gear", 9.0, "random")]) == []
    late = row("walker", 0.01) | {"errors": [1.0, 0.5, 0.2, 0.06, 0.01]}
    assert not claims([late])[0].ok  # after three updates, not at the end


def test_the_curve_of_random_search_is_the_best_so_far():
    losses = {"losses": [2.0, 3.0, 1.0, 4.0], "errors": [0.5, 0.1, 0.7, 0.2]}
    assert curve({"method": "image", **losses}) == [0.5, 0.1, 0.7, 0.2]
    assert curve({"method": "random", **losses}) == [0.5, 0.5, 0.7, 0.7]


def test_the_command_saves_rows_and_plots(thrown, tmp_path, capsys, monkeypatch):
    options = {"only": [Subject.GEAR], "method": [Method.IMAGE, Method.RANDOM], "seeds": 2, "held_out": False}
    file, plots = tmp_path / "rows.json", tmp_path / "plots"
    reproduce.control(**options, plots=plots, as_json=file)
    shown = capsys.readouterr().out
    assert "ok   gear: mean error of the last iterate" in shown
    assert len(json.loads(file.read_text())["rows"]) == 8
    assert sorted(file.name for file in plots.iterdir()) == ["gear-at-rest.png", "gear.png"]
    assert all(file.stat().st_size > 10_000 for file in plots.iterdir())
    monkeypatch.setattr(gear, "task", None)  # the rows are saved: nothing is run again
    reproduce.control(**options, plots=None, as_json=file)
    assert "ok   gear: mean error of the last iterate" in capsys.readouterr().out


def test_a_failed_claim_exits_after_plotting(thrown, tmp_path):
    bad = {"task": "gear", "method": "image", "seed": 0, "last": 1.0, "errors": [2.0, 1.0], "hidden": None}
    table = experiment([Subject.GEAR], [Method.IMAGE], 1)
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"experiment": "control", "rows": {c.key: bad for c in table.cases}}))
    plotted = []
    with pytest.raises(typer.Exit):
        reproduce.show_experiment(table, file, plotted.append)
    assert len(plotted[0]) == 2


def test_task_families():
    assert find_family(Subject.CLOTH).goal == "posed"
    assert find_family(Subject.GEAR, "rest").name == "gear at rest"
    with pytest.raises(gs.InvalidInput, match="must be one of place for the walker"):
        find_family(Subject.WALKER, "posed")
    assert len({family.name for family in TASK_FAMILIES}) == len(TASK_FAMILIES)
    assert find_family(Subject.GEAR, "rest").paper(Method.IMAGE) == {}


def test_an_unsupported_method_is_rejected():
    task = throw(0)
    task = replace(task, stages={Method.IMAGE: task.stages[Method.IMAGE]})
    with pytest.raises(gs.InvalidInput, match="must be one of image for throw"):
        task.run(Method.RANDOM)


def test_fewer_iterations():
    task = throw(0).with_iterations(1)
    assert task.iterates(Method.IMAGE) == 4  # the start and one step in each of two stages
    assert len(task.run().history) == 4
    assert task.iterates(Method.RANDOM) == 1


def test_ctrl_c_at_the_start_of_a_stage_returns_the_stage_before(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(gs.Blur, "residuals", stop)  # in the second stage
    plan = throw(0).run()
    assert plan.status == "interrupted"
    assert plan.last.number == plan.history[-1].number
    assert {iterate.stage for iterate in plan.history} == {0}
    assert plan.best.loss == min(iterate.loss for iterate in plan.history)
    monkeypatch.setattr(gs.Moments, "residuals", stop)  # in the first stage: there is no result
    with pytest.raises(KeyboardInterrupt):
        throw(0).run()
