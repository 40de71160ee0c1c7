"""The code in README and docs runs as it stands, and their links lead somewhere."""

import re
import sys
import types
from pathlib import Path

import pytest

import gradsim as gs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.usefixtures("forget_declarations")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_runs(page, tmp_path, monkeypatch):
    """Every block of a page, in one namespace, from a folder of its own."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    assert blocks, "a page without code shows nothing"
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses and Warp look up the module of a class
    for block in blocks:
        above = text.count("\n", 0, block.start(1))  # so that a traceback names the line of the page
        try:
            exec(compile("\n" * above + block[1], str(page), "exec"), module.__dict__)
        except gs.MissingExtra as error:
            pytest.skip(f"line {above}: {error}")


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_somewhere(page):
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
