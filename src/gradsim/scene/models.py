"""Meshes of everyday objects, included in gradsim as files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gradsim.scene.errors import UnknownName
from gradsim.scene.mesh_builders import mesh_builder
from gradsim.scene.mesh_files import load_mesh
from gradsim.scene.meshes import TriMesh
from gradsim.scene.spelling import did_you_mean

FOLDER = Path(__file__).parents[1] / "models"


@mesh_builder
def model(name: str) -> TriMesh:
    """Loads a closed mesh that is included in gradsim, about 1 m across and centred at its centre of mass, y up.

    Example:
        `gs.meshes.model("rabbit")`

    Args:
        name: apple, banana, pear, carrot, rabbit, duck, mug, lamp, airliner or fighter, of at most 250 vertices; or
            knot or star, centred at their origin.
    """
    mesh = _load(name)
    return TriMesh(mesh.vertices, mesh.faces)  # of its own, because the builder records its call in the mesh


def model_names() -> list[str]:
    """Returns the names of the meshes that are included in gradsim.

    Example:
        `"duck" in gs.meshes.model_names()`
    """
    return sorted(file.stem for file in FOLDER.glob("*.obj"))


@cache
def _load(name: str) -> TriMesh:
    names = model_names()
    if name not in names:
        raise UnknownName("model", name, f"{did_you_mean(str(name), names)}the models are {', '.join(names)}")
    mesh = load_mesh(FOLDER / f"{name}.obj")
    assert isinstance(mesh, TriMesh)
    return mesh
