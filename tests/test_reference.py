"""Every public name is documented and has a place in the reference."""

import importlib.util
import inspect
import types
from pathlib import Path

import pytest

import gradsim as gs

ROOT = Path(__file__).parents[1]


def is_documented(value) -> bool:
    text = inspect.getdoc(value)
    return bool(text) and not text.startswith(f"{getattr(value, '__name__', '')}(")  # what dataclasses write themselves


def members(value):
    """Public methods and properties of a class that are gradsim's own."""
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        function = getattr(function, "func", function)
        own = getattr(function, "__module__", None) or ""
        if (
            not name.startswith("_")
            and callable(function)
            and own.startswith("gradsim")
            and not inspect.isclass(member)
        ):
            yield name


def undocumented(name, value):
    if isinstance(value, types.ModuleType):
        if not value.__doc__:
            yield name
        for inner in getattr(value, "__all__", [key for key in vars(value) if not key.startswith("_")]):
            if (getattr(getattr(value, inner), "__module__", None) or "").startswith("gradsim"):
                yield from undocumented(f"{name}.{inner}", getattr(value, inner))
    elif inspect.isclass(value):
        if not is_documented(value):
            yield name
        yield from (f"{name}.{one}" for one in members(value) if not inspect.getdoc(getattr(value, one)))
    elif callable(value) and not is_documented(value):
        yield name


def test_every_public_name_has_a_docstring():
    missing = [one for name in gs.__all__ for one in undocumented(name, getattr(gs, name))]
    assert missing == []


def test_public_functions_describe_their_arguments():
    functions = [getattr(gs, name) for name in gs.__all__ if inspect.isfunction(getattr(gs, name))]
    missing = [
        f"{function.__name__}({name})"
        for function in functions
        if "Args:" in function.__doc__
        for name in inspect.signature(function).parameters
        if name not in function.__doc__
    ]
    assert missing == []


def test_reference_has_every_public_name():
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / "tools" / "docs_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    text = "\n".join(pages.reference_page(page) for page in (*pages.PAGES, *pages.MODULES))
    listed = {line.removeprefix("::: gradsim.") for line in text.splitlines() if line.startswith("::: ")}
    assert set(gs.__all__) - listed == {"errors"}
    assert set(pages.public_names()) == set(gs.__all__)
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in (*pages.PAGES, *pages.MODULES) if f"reference/{page}.md" not in navigation] == []
    gallery = pages.gallery_page()
    assert [file.name for file in (ROOT / "examples").glob("*.py") if f'"{file.name}"' not in gallery] == []
