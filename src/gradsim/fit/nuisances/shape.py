"""Nuisances of the shape of bodies: scale and aspect.

The meshes of a scene are the same in all worlds of a batch, so that those of bodies with a mesh are not batched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gradsim.cache import Cache
from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import multiplied, tensor_of, vector, with_body
from gradsim.fit.nuisances.nuisance import Nuisance, SceneChange
from gradsim.scene.bodies import Springs
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene

SCALE = 1.0  # [%]

# Exponents of the scaling along x, y, z; those of an aspect sum to zero, so that it keeps the volume.
STRETCHES = {"scale": (1.0, 1.0, 1.0), "aspect.x": (1.0, -0.5, -0.5), "aspect.y": (-0.5, 1.0, -0.5)}

_meshes: Cache[TriMesh | TetMesh] = Cache(64)


def shape_nuisances(scene: Scene) -> Iterator[Nuisance]:
    for body in scene.bodies:
        if isinstance(body, (Pendulum, DoublePendulum)):
            yield _rod_length(body)
            continue
        if not hasattr(body, "mesh") and not isinstance(body, Springs):
            continue
        for name, exponents in STRETCHES.items():
            if name != "scale" and not _distinct(body, np.array(exponents)):
                continue
            springs = isinstance(body, Springs)
            yield Nuisance(
                f"{body.name}.{name}",
                "shape",
                "%",
                SCALE,
                _text(body.name, name),
                scene=_springs_stretch(body.name, exponents) if springs else _stretch(body.name, exponents),
                changes=(f"{body.name}.points", f"{body.name}.rest_length") if springs else (),
                batched=springs,
            )


def _text(body: str, name: str) -> wording.Text:
    if name == "scale":
        return wording.larger(f"scale of {body}")
    return wording.larger(f"shape of {body} along its {name[-1]} axis", words=("longer", "shorter"))


def _distinct(body: Any, exponents: np.ndarray) -> bool:
    """Whether a body has an extent along the axis that an aspect stretches most."""
    points = np.asarray(body.mesh.vertices) if hasattr(body, "mesh") else _points(body)
    extent = np.ptp(points, axis=0)
    return bool(extent[int(exponents.argmax())] > 1e-6 * extent.max())


def _points(body: Springs) -> np.ndarray:
    points: Any = body.points
    points = points.detach().cpu().numpy() if isinstance(points, torch.Tensor) else points
    first: np.ndarray = points.reshape(-1, *points.shape[-2:])[0]
    return first


def _stretch(name: str, exponents: tuple[float, ...]) -> SceneChange:
    """Stretch of a body with a mesh about the middle of its bounding box, in mesh coordinates."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        factors = np.exp(float(amount) / 100 * np.array(exponents))
        low, high = body.mesh.vertices.min(0), body.mesh.vertices.max(0)
        middle = (low + high) / 2

        def stretched(points: Any) -> Any:
            tensor = tensor_of(points, amount)
            return (tensor - vector(middle, tensor)) * vector(factors, tensor) + vector(middle, tensor)

        changes: dict[str, Any] = {"mesh": _stretched_mesh(body.mesh, middle, factors)}
        field = "center" if isinstance(body, Rigid) else "vertices"
        if getattr(body, field) is not None:
            changes[field] = stretched(getattr(body, field))
        return with_body(scene, name, **changes)

    return change


def _stretched_mesh(mesh: TriMesh | TetMesh, middle: np.ndarray, factors: np.ndarray) -> TriMesh | TetMesh:
    """Returns a mesh scaled about a point; the same object for the same arguments, so that its inertia is cached."""
    if (factors == 1.0).all():
        return mesh

    def build() -> TriMesh | TetMesh:
        vertices = middle + (mesh.vertices - middle) * factors
        if isinstance(mesh, TriMesh):
            return TriMesh(vertices, mesh.faces, mesh.uv)
        return TetMesh(vertices, mesh.tets)

    return _meshes.get((mesh.key, tuple(middle), tuple(factors)), build)


def _springs_stretch(name: str, exponents: tuple[float, ...]) -> SceneChange:
    """Stretch of springs about the mean of their points; rest lengths that are given stretch by the mean factor."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        points = tensor_of(body.points, amount)
        middle = points.mean(-2, keepdim=True)
        factors = torch.exp(amount[..., None, None] / 100 * vector(exponents, points))
        changes = {"points": middle + (points - middle) * factors}
        if body.rest_length is not None and exponents == STRETCHES["scale"]:
            changes["rest_length"] = multiplied(body.rest_length, amount / 100)
        return with_body(scene, name, **changes)

    return change


def _rod_length(body: Any) -> Nuisance:
    field = "lengths" if isinstance(body, DoublePendulum) else "length"
    shape = (2,) if isinstance(body, DoublePendulum) else ()

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        value = getattr(scene[body.name], field)
        return with_body(scene, body.name, **{field: multiplied(value, amount / 100, shape)})

    text = wording.larger(f"rod of {body.name}", words=("longer", "shorter"))
    return Nuisance(f"{body.name}.scale", "shape", "%", SCALE, text, scene=change, changes=(f"{body.name}.{field}",))
