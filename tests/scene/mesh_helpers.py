"""Meshes and measures shared by the tests of meshes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gradsim.scene import surfaces
from gradsim.scene.inertia import MassProperties, solid
from gradsim.scene.meshes import TetMesh, TriMesh

TET = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
SQUARE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])


def tri_mesh(vertices: Any, faces: Any, uv: Any = None) -> TriMesh:
    return TriMesh(np.array(vertices), np.array(faces), uv)


def tet_mesh(vertices: Any, tets: Any) -> TetMesh:
    return TetMesh(np.array(vertices), np.array(tets))


def enclosed_volume(vertices, faces):
    """Returns the enclosed volume by the divergence theorem, positive if the surface is closed and oriented outward."""
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return np.einsum("ij,ij->", np.cross(a, b), c) / 6


# Builder, extents [m], area and volume of the exact shape [m^2, m^3].
SHAPES = {
    "box": (lambda: surfaces.box((1.0, 2.0, 3.0)), (1.0, 2.0, 3.0), 22.0, 6.0),
    "sphere": (lambda: surfaces.sphere(0.5, 64, 128), (1.0, 1.0, 1.0), math.pi, math.pi / 6),
    "icosphere": (lambda: surfaces.icosphere(0.5, 5), (1.0, 1.0, 1.0), math.pi, math.pi / 6),
    "cylinder": (lambda: surfaces.cylinder(0.5, 3.0, 128), (1.0, 3.0, 1.0), 3.5 * math.pi, 0.75 * math.pi),
    "cone": (lambda: surfaces.cone(0.3, 0.4, 128), (0.6, 0.4, 0.6), 0.24 * math.pi, 0.012 * math.pi),
    "capsule": (lambda: surfaces.capsule(0.5, 2.0, 128), (1.0, 3.0, 1.0), 3 * math.pi, 2 / 3 * math.pi),
    "torus": (lambda: surfaces.torus(1.0, 0.25, 64, 128), (2.5, 0.5, 2.5), math.pi**2, math.pi**2 / 8),
}


def properties(mesh: TriMesh, density: torch.Tensor | float = 1.0) -> MassProperties:
    return solid(mesh.vertices, mesh.faces, density)


def volume(mesh: TriMesh) -> float:
    return float(properties(mesh).mass)


def joined(*parts: TriMesh) -> TriMesh:
    starts = np.cumsum([0] + [len(part.vertices) for part in parts])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return TriMesh(np.concatenate([part.vertices for part in parts]), np.concatenate(faces))


def moved(mesh: TriMesh, x: float) -> TriMesh:
    return TriMesh(mesh.vertices + np.array([x, 0.0, 0.0]), mesh.faces)


def flipped(mesh: TriMesh, which: object = slice(None)) -> TriMesh:
    faces = mesh.faces.copy()
    faces[which] = faces[which][:, ::-1]
    return TriMesh(mesh.vertices, faces)


def half_of_the_faces(mesh: TriMesh) -> np.ndarray:
    return np.random.default_rng(0).random(len(mesh.faces)) < 0.5
