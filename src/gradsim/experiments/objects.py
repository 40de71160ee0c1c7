"""Objects of the rigid-body experiments: eight kinds with random proportions, colours and rotations."""

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
    """Returns an object about 1 m across. Knot and star are not convex and are loaded from files."""
    primitives = {
        "box": lambda: surfaces.box(1.0),
        "sphere": lambda: surfaces.icosphere(0.6, 1),
        "cylinder": lambda: surfaces.cylinder(0.45, 1.0, 12),
        "cone": lambda: surfaces.cone(0.6, 1.1, 12),
        "capsule": lambda: surfaces.capsule(0.35, 0.5, 8),
        "torus": lambda: surfaces.torus(0.5, 0.22, 5, 9),
    }
    loaded = primitives[kind]() if kind in primitives else load_mesh(SHAPES / f"{kind}.obj")
    assert isinstance(loaded, TriMesh)
    return loaded


def random_shape(kind: str, rng: np.random.Generator) -> TriMesh:
    """Returns the object scaled by 0.8 to 1.2 along each axis."""
    shape = mesh(kind)
    return TriMesh(shape.vertices * rng.uniform(0.8, 1.2, 3), shape.faces)


def random_look(shape: TriMesh, rng: np.random.Generator) -> Look:
    """Returns a random colour for every face, so that rotation is visible."""
    return Look(face_colors=rng.uniform(0.15, 1.0, (len(shape.faces), 3)), smooth=0.0)


def volume(shape: TriMesh) -> float:
    """Returns the volume [m^3]."""
    return float(solid(shape.vertices, shape.faces).mass)


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """Returns a uniformly distributed rotation: a unit quaternion, [4]."""
    q = rng.normal(size=4)
    return np.asarray(q / np.linalg.norm(q))


def extent_below_origin(shape: TriMesh, rotation: np.ndarray) -> float:
    """Returns how far the rotated object reaches below its origin [m]."""
    return -float(rotate(torch.tensor(rotation), torch.tensor(shape.vertices))[:, 1].min())
