"""Every public name is documented, with an example that runs, and has a place in the reference."""

import contextlib
import dataclasses
import importlib.util
import inspect
import json
import re
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsim as gs

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"Example:\n\s+`(.+)`\n?")
WITHOUT_EXAMPLE = {"Quantity", "datasets", "errors", "meshes"}  # a type, and modules
# Examples that are only parsed: they take long, need files, other packages or a browser, or declare something.
NOT_RUN = {
    *("BodyForce", "ForceFamily", "ForceKernels", "node_force", "quantity", "register_force_family", "rigid_force"),
    *(
        "Fit",
        "Depth",
        "Design",
        "ExpectedIntervals",
        "Feedback",
        "Masks",
        "Pixels",
        "Plan",
        "States",
        "Tracks",
        "Trial",
    ),
    *(
        "Adam",
        "LBFGS",
        "RandomSearch",
        "TorchOptimizer",
        "minimize",
        "best_design",
        "estimate",
        "identifiability",
        "pendulum_trials",
    ),
    *(
        "Blur",
        "Cumulative",
        "GaussNewton",
        "GoalImage",
        "GoalState",
        "Keyframes",
        "MinimumNorm",
        "Moments",
        "Sinusoids",
    ),
    *("ProgressBar", "control", "rollout", "write_plan", "write_report", "BrokenGradient", "Diverged", "cumulative"),
    *("MissingExtra", "Time", "view", "Mitsuba", "Prepared", "prepare", "environment", "Robot"),
    *(
        "load_mesh",
        "load_robot",
        "load_trajectory",
        "load_states",
        "load_video",
        "Verlet",
        "ImplicitMidpoint",
        "DIBR",
        "SoftRas",
    ),
    *("save_trajectory", "save_glb", "save_usd", "save_video", "meshes.load_mesh", "meshes.save_mesh"),
    *("meshes.tetrahedralize", "datasets.VideoDataset", "datasets.generate"),
}


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


def documented_names():
    """Public names with their values, those of the modules of meshes and data sets included."""
    for name in gs.__all__:
        if name not in WITHOUT_EXAMPLE:
            yield name, getattr(gs, name)
    for module in ("meshes", "datasets"):
        for name in getattr(gs, module).__all__:
            if callable(getattr(getattr(gs, module), name)):
                yield f"{module}.{name}", getattr(getattr(gs, module), name)


def examples_of():
    return {name: EXAMPLE.search(value.__doc__ or "") for name, value in documented_names()}


def test_every_public_name_has_an_example():
    assert [name for name, found in examples_of().items() if found is None] == []


def test_public_dataclasses_describe_their_fields():
    missing = [
        f"{name}.{field.name}"
        for name, value in documented_names()
        if dataclasses.is_dataclass(value) and not name.endswith("Motion")
        for field in dataclasses.fields(value)
        if field.init and not field.name.startswith("_") and not described(value, field.name)
    ]
    assert missing == []


def described(value, name):
    """Whether a class or one of its bases has a field in its docstring, or in a comment beside its declaration."""
    owners = [base for base in value.__mro__ if name in vars(base).get("__annotations__", {})]
    texts = [base.__doc__ or "" for base in value.__mro__]
    commented = any(re.search(rf"^    {name}: .*#", inspect.getsource(base), re.M) for base in owners)
    return commented or any(re.search(rf"\b{name}\b", text) for text in texts)


def test_examples_of_the_reference_run():
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=2.0)
    sheet, ball = gs.Cloth("sheet", gs.meshes.grid(1.0, 2), mass=0.1), gs.Ball("ball", radius=0.1, mass=1.0)
    camera = gs.Camera(eye=(0.0, 1.0, 4.0), target=(0.0, 0.0, 0.0))
    scene, mesh = gs.Scene([cube], camera=camera), gs.meshes.tet_box(1.0, 1)
    trajectory = gs.simulate(scene, frames=2, substeps=2)
    known = {"gs": gs, "np": np, "torch": torch, "json": json, "contextlib": contextlib, "warnings": warnings}
    known |= {"cube": cube, "sheet": sheet, "ball": ball, "scene": scene, "mesh": mesh, "trajectory": trajectory}
    known |= {"video": torch.rand(2, 32, 32, 3, dtype=torch.float64), "pixels": torch.rand(2, 1, 2)}
    known |= {"positions": torch.rand(2, 3), "corners": torch.rand(2, 2, 3), "vertices": mesh.vertices}
    known |= {"tets": mesh.tets}
    for name, found in examples_of().items():
        code = found[1] if found else ""
        if code.startswith("@"):
            code += "\nclass Own: pass"
        program = compile(code, f"<example of {name}>", "exec")
        if name in NOT_RUN:
            continue
        with warnings.catch_warnings():
            exec(program, dict(known))
    assert set(examples_of()) >= NOT_RUN


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
    examples = list((ROOT / "examples").glob("*.py"))
    assert [file.name for file in examples if f'"{file.name}"' not in gallery] == []
    pictures = {file.stem: ROOT / "docs" / "images" / "examples" / f"{file.stem}.webp" for file in examples}
    assert [name for name, file in pictures.items() if f"({file.relative_to(ROOT / 'docs')})" not in gallery] == []
    assert [name for name, file in pictures.items() if not file.is_file()] == [], "run docs/images/make_gallery.py"
    assert [name for name, file in pictures.items() if file.stat().st_size > 30_000] == []
