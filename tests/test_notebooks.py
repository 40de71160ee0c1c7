"""Every notebook runs from its first cell to its last, installs what is missing, and is stored without outputs."""

import json
import warnings
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_notebooks_are_found_without_outputs():
    assert [file.stem for file in NOTEBOOKS] == ["contact", "control", "first_video", "own_footage"]
    for file in NOTEBOOKS:
        cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
        assert "pip" in "".join(cells[0]["source"])
        assert [cell["outputs"] for cell in cells] == [[]] * len(cells)


@pytest.mark.filterwarnings("default")  # of the packages that run notebooks
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook_runs(file, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(file, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert len(json.dumps(outputs)) < 400_000
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any("<iframe" in page for page in pages)
