"""The check of the vocabulary finds old names in code and leaves plain English alone."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tools" / "check_vocabulary.py"


@pytest.fixture(scope="module")
def vocabulary():
    spec = importlib.util.spec_from_file_location("check_vocabulary", SCRIPT)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # its dataclass needs the entry
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def find(vocabulary, tmp_path):
    """A function that writes one file into an empty repository and returns what is found: (line, kind, text)."""

    def find(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        found = vocabulary.check(tmp_path)
        assert all(finding.path == path for finding in found)
        return [(finding.line, finding.kind, finding.text) for finding in found]

    return find


PYTHON = '''"""A body touches the ground once; each row is kept."""

from gradsim.simulate.kernels.node_march import NodeMarch


class Found(Exception):
    rivals: int = 0


def solve(problem, *, told=None):
    found = problem.posed(doubt=1.0)  # the best of both
    return found.is_tame()


def test_mistakes_are_told():
    solve("zoo")
'''


def test_python_names(find):
    assert find("src/gradsim/fit/solve.py", PYTHON) == [
        (3, "class", "NodeMarch"),
        (3, "module", "node_march"),
        (6, "class", "Found"),
        (7, "attribute", "rivals"),
        (10, "argument", "told"),
        (11, "argument", "doubt"),
        (11, "attribute", "posed"),
        (12, "attribute", "is_tame"),
        (15, "test", "test_mistakes_are_told"),
        (16, "option", "zoo"),
    ]


def test_plain_english_passes(find):
    text = '''"""Bodies that touch advance together. What is seen is kept in rows. The law holds, no doubt."""

import numpy as np

# A driver starts each of both parts once; the tables are made of words. That is a fact, and there is room for more.
seen = set()
rows, columns = np.ones((2, 3)).shape
found = [part for part in __file__.split("/") if part not in seen]
'''
    assert find("src/gradsim/report/chart.py", text) == []
    assert find("README.md", "Each body is seen in both videos. The law is told in `contact_law`.\n") == []


def test_cpp_names_and_comments(find):
    text = (
        "// The bodies march. The room is kept.\nReal mosaic(const Law& law) { return law.contact_law + retreat(0); }\n"
    )
    assert find("src/gradsim/render/kernels/native/frame.h", text) == [
        (1, "word", "march"),
        (2, "function", "mosaic"),
        (2, "function", "retreat"),
    ]
    assert [text for _, _, text in find("src/gradsim/render/kernels/native/frame.h", "int kept; // kept\n")] == ["kept"]


def test_names_in_pages(find):
    page = "Use `gs.each` and\n\n```python\nresult = gs.drive(scene)  # film\n```\n\nfilmed: each by `--told-apart`.\n"
    assert find("docs/page.md", page) == [
        (1, "attribute", "each"),
        (4, "attribute", "drive"),
        (4, "word", "film"),
        (7, "option", "told_apart"),
        (7, "word", "filmed"),
    ]


def test_names_of_the_engine(find):
    file = "src/gradsim/simulate/engine/launch.py"
    text = "def launch(clock, law, rows):\n    parts, system.tables = rows, law\n"
    assert find(file, text) == [(2, "attribute", "tables")]
    assert find(file, "def law(parts): ...\n") == [(1, "argument", "parts"), (1, "function", "law")]
    assert find(file, "") == []
    assert find("src/gradsim/simulate/native/nodes.h", "Table<T> tables[2]; auto law(T slopes);\n") == []


def test_compiler_flags_are_fine(find):
    assert find("benchmarks/newton.py", 'FLAGS = "-march=native"\n') == []


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("src/gradsim/scenes/cube.yaml", "bodies:\n  - each: 1\n", "each"),
        ("src/gradsim/report/page.html", '<p class="wide film">A video</p>\n', "film"),
        ("src/gradsim/report/page.css", ".doubt { color: red }\n", "doubt"),
        ("src/gradsim/simulate/pattern.py", "", "pattern"),
        ("tests/simulate/test_march.py", "", "march"),
    ],
)
def test_keys_and_files(find, path, text, name):
    assert [text for _, _, text in find(path, text)] == [name]


def test_names_of_one_package_are_fine_in_others(find):
    text = "def tables(rows, pattern, law, both):\n    return [row.bar for row in rows]\n"
    assert find("src/gradsim/report/tables.py", text) == []


def test_a_class_with_two_meanings(vocabulary, tmp_path):
    for package in ("fit", "check"):
        (tmp_path / "src" / package).mkdir(parents=True)
        (tmp_path / "src" / package / "problem.py").write_text("class Problem:\n    pass\n")
    assert [finding.path for finding in vocabulary.check(tmp_path)] == ["src/check/problem.py", "src/fit/problem.py"]


def test_exit_code_and_message(vocabulary, tmp_path, capsys):
    assert vocabulary.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "README.md").write_text("gradsim\n\nThe filmed cube.\n")
    assert vocabulary.main([str(tmp_path)]) == 1
    assert "README.md:3: word filmed: write video, recorded\n" in capsys.readouterr().out


def test_exceptions_are_of_files_that_exist(vocabulary):
    assert all((ROOT / path).is_file() for path, _ in vocabulary.ALLOWED)
