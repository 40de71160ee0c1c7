"""Public mesh functions: builders, files, orientation. Tetrahedra for `Soft`, triangles for `Cloth` and `Rigid`."""

from gradsim.scene.closed_surfaces import outward
from gradsim.scene.gears import tet_gear
from gradsim.scene.mesh_files import load_mesh, save_mesh, tetrahedralize
from gradsim.scene.meshes import (
    TetMesh,
    TriMesh,
    chain,
    grid,
    oriented,
    tet_ball,
    tet_box,
    tet_volumes,
    triangle_areas,
)
from gradsim.scene.models import model, model_names
from gradsim.scene.surfaces import box, capsule, cone, cylinder, icosphere, sphere, torus

__all__ = [
    "TetMesh",
    "TriMesh",
    "box",
    "capsule",
    "chain",
    "cone",
    "cylinder",
    "grid",
    "icosphere",
    "load_mesh",
    "model",
    "model_names",
    "oriented",
    "outward",
    "save_mesh",
    "sphere",
    "tet_ball",
    "tet_box",
    "tet_gear",
    "tet_volumes",
    "tetrahedralize",
    "torus",
    "triangle_areas",
]
