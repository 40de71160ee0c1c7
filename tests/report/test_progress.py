"""Progress bars show estimates and minimizations in notebooks and on the standard error stream."""

import json

import pytest

import gradsim as gs
from gradsim.fit.plan import Iterate
from gradsim.fit.result import FitStep

CELL = """
import time
import gradsim as gs
bar = gs.ProgressBar(total=3)
for k in range(1, 4):
    bar(k, 0.5 / k)
    time.sleep(0.25)
"""


def test_notebooks_show_one_bar_that_is_updated(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    updates = []
    plain = client.process_message

    def process(message, *args):
        if message["msg_type"] in ("display_data", "update_display_data"):
            updates.append((message["msg_type"], message["content"]["data"]["text/html"]))
        return plain(message, *args)

    client.process_message = process
    client.execute()
    assert [kind for kind, _ in updates] == ["display_data", "update_display_data", "update_display_data"]
    outputs = notebook.cells[0].outputs
    assert len(outputs) == 1, json.dumps(outputs)
    assert 'value="3" max="3"' in outputs[0].data["text/html"]
    assert "iteration 3: loss 1.667e-01" in outputs[0].data["text/html"]


def test_lines_of_all_kinds_of_steps(capsys):
    for step in (
        FitStep("search", {}, 2e-3, 1.0, frames=4),
        Iterate(4, 0, 0.25, 1.0),
    ):
        gs.ProgressBar(total=4)(step)
    gs.ProgressBar()(7)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("4/4 search: mean squared residual 2.00e-03, ")
    assert lines[1].startswith("4/4 iterate 4: loss 2.500e-01, ")
    assert lines[2].startswith("iteration 7, ")


def test_lines_are_few(capsys):
    bar = gs.ProgressBar(total=100)
    for k in range(50):
        bar(k)
    assert len(capsys.readouterr().err.splitlines()) == 1
