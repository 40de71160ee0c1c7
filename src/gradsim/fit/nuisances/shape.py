"""Nuisances of the shape of bodies: scale and aspect.

Rigid bodies change by their `size`, balls by their radius, which may differ between the worlds of a batch. The meshes
of soft bodies and cloth are the same in all worlds, so that their nuisances are not batched.
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
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Springs
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
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
            if name != "scale" and (isinstance(body, Ball) or not _distinct(body, np.array(exponents))):
                continue
            change, paths, batched = _change(body, exponents)
            text = _text(body.name, name)
            yield Nuisance(
                f"{body.name}.{name}", "shape", "%", SCALE, text, scene=change, changes=paths, batched=batched
            )


def _change(body: Any, exponents: tuple[float, ...]) -> tuple[SceneChange, tuple[str, ...], bool]:
    """Returns the stretch of a body, the paths of the quantities that it changes, and whether it is batched."""
    if isinstance(body, Springs):
        return _springs_stretch(body.name, exponents), (f"{body.name}.points", f"{body.name}.rest_length"), True
    if isinstance(body, Ball):
        return _ball_scale(body.name), (f"{body.name}.radius",), True
    if isinstance(body, Rigid):
        return _rigid_stretch(body.name, exponents), (f"{body.name}.size",), True
    return _mesh_stretch(body.name, exponents), (), False


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


def _ball_scale(name: str) -> SceneChange:
    """Larger radius of a ball."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        return with_body(scene, name, radius=multiplied(scene[name].radius, amount / 100))

    return change


def _rigid_stretch(name: str, exponents: tuple[float, ...]) -> SceneChange:
    """Stretch of a rigid body about the middle of its bounding box, along its axes.

    The size scales the mesh about its origin, so that the position changes where that is not the middle.
    """

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        low, high = body.mesh.vertices.min(0), body.mesh.vertices.max(0)
        size = tensor_of(high - low if body.size is None else body.size, amount)
        factors = torch.exp(amount[..., None] / 100 * vector(exponents, amount)).to(size)
        changes: dict[str, Any] = {"size": size * factors}
        if body.center is not None:
            changes["center"] = tensor_of(body.center, amount) * factors
        middle = vector((low + high) / 2 / (high - low), size) * size
        if bool(middle.any()):
            shift = _turned(body.rotation, middle * (1 - factors))
            changes["position"] = tensor_of(body.position, amount) + shift
        return with_body(scene, name, **changes)

    return change


def _turned(rotation: Any, x: torch.Tensor) -> torch.Tensor:
    """Rotates vectors [..., 3] by a quaternion of any length; None is no rotation."""
    if rotation is None:
        return x
    q = tensor_of(rotation, x)
    return rotate(q / q.norm(dim=-1, keepdim=True), x)


def _mesh_stretch(name: str, exponents: tuple[float, ...]) -> SceneChange:
    """Stretch of a soft body or cloth about the middle of its bounding box, in mesh coordinates."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        factors = np.exp(float(amount) / 100 * np.array(exponents))
        low, high = body.mesh.vertices.min(0), body.mesh.vertices.max(0)
        middle = (low + high) / 2

        def stretched(points: Any) -> Any:
            tensor = tensor_of(points, amount)
            return (tensor - vector(middle, tensor)) * vector(factors, tensor) + vector(middle, tensor)

        changes: dict[str, Any] = {"mesh": _stretched_mesh(body.mesh, middle, factors)}
        if body.vertices is not None:
            changes["vertices"] = stretched(body.vertices)
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
