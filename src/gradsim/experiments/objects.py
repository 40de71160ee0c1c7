"""The objects that are thrown and pushed: eight kinds, with proportions, colours and rotations drawn at random."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

from gradsim.scene import surfaces
from gradsim.scene.inertia import solid
from gradsim.scene.looks import Look
from gradsim.scene.mesh_files import load_mesh
from gradsim.scene.meshes import TriMesh
from gradsim.scene.rotation import rotate

SHAPES = Path(__file__).parent / "shapes"
KINDS = ("box", "sphere", "cylinder", "cone", "capsule", "torus", "knot", "star")


@cache
def mesh(kind: str) -> TriMesh:
    """An object about 1 m across; knot and star are not convex and come from files."""
    made = {
        "box": lambda: surfaces.box(1.0),
        "sphere": lambda: surfaces.icosphere(0.6, 1),
        "cylinder": lambda: surfaces.cylinder(0.45, 1.0, 12),
        "cone": lambda: surfaces.cone(0.6, 1.1, 12),
        "capsule": lambda: surfaces.capsule(0.35, 0.5, 8),
        "torus": lambda: surfaces.torus(0.5, 0.22, 5, 9),
    }
    loaded = made[kind]() if kind in made else load_mesh(SHAPES / f"{kind}.obj")
    assert isinstance(loaded, TriMesh)
    return loaded


def stretched(kind: str, rng: np.random.Generator) -> TriMesh:
    """The object in other proportions."""
    shape = mesh(kind)
    return TriMesh(shape.vertices * rng.uniform(0.8, 1.2, 3), shape.faces)


def painted(shape: TriMesh, rng: np.random.Generator) -> Look:
    """Every face in a colour of its own, so that turning is seen."""
    return Look(face_colors=rng.uniform(0.15, 1.0, (len(shape.faces), 3)), smooth=0.0)


def volume(shape: TriMesh) -> float:
    """[m^3]."""
    return float(solid(shape.vertices, shape.faces).mass)


def turned(rng: np.random.Generator) -> np.ndarray:
    """A rotation, all alike likely: a unit quaternion, [4]."""
    q = rng.normal(size=4)
    return np.asarray(q / np.linalg.norm(q))


def depth(shape: TriMesh, rotation: np.ndarray) -> float:
    """How far a turned object reaches below its origin [m]."""
    return -float(rotate(torch.tensor(rotation), torch.tensor(shape.vertices))[:, 1].min())
