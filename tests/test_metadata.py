"""The version and the dependencies agree wherever the repository states them."""

import importlib.metadata
import re
from pathlib import Path

import yaml

import gradsim as gs

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")


def pinned_versions():
    """Returns the lines of constraints.txt as {normalized name: [versions]}."""
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = PIN.match(line).groups()
            pins.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(version)
    return pins


def test_installed_version_is_that_of_the_package():
    assert importlib.metadata.version("gradsim") == gs.__version__


def test_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == gs.__version__
    assert citation["license"] == "Apache-2.0"


def test_changelog_has_a_section_for_the_version():
    titles = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert gs.__version__ in titles


def test_every_dependency_has_an_exact_version():
    pins = pinned_versions()
    required = [re.match(r"[A-Za-z0-9._-]+", text)[0] for text in importlib.metadata.requires("gradsim")]
    missing = {re.sub(r"[-_.]+", "-", name).lower() for name in required} - pins.keys() - {"gradsim"}
    assert not missing, f"add to constraints.txt: {sorted(missing)}"
