"""Objects of the rigid-body experiments, with random proportions, colours and rotations."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from gradsim.scene import surfaces
from gradsim.scene.inertia import solid
from gradsim.scene.looks import Look
from gradsim.scene.meshes import TriMesh
from gradsim.scene.models import model
from gradsim.scene.rotation import rotate

KINDS = ("box", "sphere", "cylinder", "cone", "capsule", "torus", "knot", "star")  # of the tables of mass and contact
GROUPS = {  # the paper's fourteen objects: section G names the groups, not the objects
    "primitive shapes": ("box", "cone", "cylinder", "sphere"),
    "fruits and vegetables": ("apple", "banana", "pear", "carrot"),
    "animals": ("rabbit", "duck"),
    "office objects": ("mug", "lamp"),
    "airplanes": ("airliner", "fighter"),
}
OBJECTS = tuple(name for names in GROUPS.values() for name in names)
PATCHES = 10  # regions of one colour on an object


@cache
def mesh(kind: str) -> TriMesh:
    """Returns a closed mesh about 1 m across: a primitive, or a model that is included in gradsim."""
    primitives = {
        "box": lambda: surfaces.box(1.0),
        "sphere": lambda: surfaces.icosphere(0.6, 1),
        "cylinder": lambda: surfaces.cylinder(0.45, 1.0, 12),
        "cone": lambda: surfaces.cone(0.6, 1.1, 12),
        "capsule": lambda: surfaces.capsule(0.35, 0.5, 8),
        "torus": lambda: surfaces.torus(0.5, 0.22, 5, 9),
    }
    return primitives[kind]() if kind in primitives else model(kind)


def random_shape(kind: str, rng: np.random.Generator) -> TriMesh:
    """Returns the object scaled by 0.8 to 1.2 along each axis."""
    return scaled(mesh(kind), rng.uniform(0.8, 1.2, 3))


def scaled(shape: TriMesh, factors: np.ndarray) -> TriMesh:
    """Returns a mesh scaled along its axes about its origin."""
    return TriMesh(shape.vertices * factors, shape.faces)


def random_look(shape: TriMesh, rng: np.random.Generator) -> Look:
    """Returns a random colour for every face, so that rotation is visible."""
    return Look(face_colors=rng.uniform(0.15, 1.0, (len(shape.faces), 3)), smooth=0.0)


def patched_look(shape: TriMesh, rng: np.random.Generator) -> Look:
    """Returns patches of random colours, so that rotation is visible: a face has the colour of the nearest of some
    random faces."""
    centers = shape.vertices[shape.faces].mean(1)
    seeds = centers[rng.integers(len(centers), size=PATCHES)]
    nearest = np.linalg.norm(centers[:, None] - seeds, axis=-1).argmin(1)
    return Look(face_colors=rng.uniform(0.15, 1.0, (PATCHES, 3))[nearest], smooth=0.0)


def volume(shape: TriMesh) -> float:
    """Returns the volume [m^3]."""
    return float(solid(shape.vertices, shape.faces).mass)


@cache
def object_volume(kind: str) -> float:
    """Returns the volume of the mesh of an object [m^3]."""
    return volume(mesh(kind))


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    """Returns a uniformly distributed rotation: a unit quaternion, [4]."""
    q = rng.normal(size=4)
    return np.asarray(q / np.linalg.norm(q))


def extent_below_origin(shape: TriMesh, rotation: np.ndarray) -> float:
    """Returns how far the rotated object reaches below its origin [m]."""
    return -float(rotate(torch.tensor(rotation), torch.tensor(shape.vertices))[:, 1].min())
