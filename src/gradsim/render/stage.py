"""What a path tracer takes: surfaces with bare colours and normals, the camera, and lights."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from gradsim.render.camera import projection
from gradsim.render.normals import Fans
from gradsim.render.shading import Lighting, lighting
from gradsim.render.structure import structure_of
from gradsim.render.surfaces import drawn
from gradsim.render.triangles import Triangles
from gradsim.render.view import Frames, chosen_frames, triangles
from gradsim.scene.batcher import Batcher
from gradsim.scene.looks import Checker, Look
from gradsim.scene.quantity import batch_shape, plain
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory


class TracedSurface(NamedTuple):
    """One surface, each corner of its faces a vertex of its own."""

    name: str
    look: Look | Checker
    lit: bool
    body: bool  # and not at rest
    own: slice  # its vertices, among all
    vertices: torch.Tensor  # vertex of each corner, among all, [3 F]
    rows: torch.Tensor  # attributes of each corner, among all, [3 F]
    fans: Fans  # that normals are made of, where there is light
    normals: torch.Tensor  # normal of each corner, among the surface's, [3 F]
    texture: torch.Tensor | None  # [h, w, 3]


class Stage(NamedTuple):
    """All frames of all worlds. Places are counted from the camera's eye, along the world's axes."""

    seen: Triangles  # in bare colours
    shape: tuple[int, ...]  # (*batch, T)
    numbers: list[int]  # of the frames in the trajectory, [T]
    batcher: Batcher
    surfaces: list[TracedSurface]
    matrix: torch.Tensor  # the camera's, [1 or W, 3, 3]
    lights: Lighting | None
    reach: torch.Tensor  # distance from point lights to the middle of the bodies at the first frame [m], [1 or W, P]

    def vertices(self, b: int) -> torch.Tensor:
        """[m], [V, 3]."""
        return torch.linalg.solve(of_world(self.matrix, b // self.shape[-1]), self.seen.vertices[b].mT).mT

    def camera(self, b: int) -> tuple[torch.Tensor, tuple[float, float, float, float]]:
        """Unit vectors to the right, down and forward as rows, [3, 3]; fx, fy, cx, cy [pixel]."""
        x, y, forward = of_world(self.matrix, b // self.shape[-1])
        forward = forward / forward.norm()
        cx, cy = x @ forward, y @ forward
        fx, fy = (x - cx * forward).norm(), (y - cy * forward).norm()
        right = (x - cx * forward) / fx
        axes = torch.stack([right, torch.linalg.cross(forward, right), forward])
        return axes, (float(fx), float(fy), float(cx), float(cy))


def of_world(x: torch.Tensor, world: int) -> torch.Tensor:
    """One world's share of a quantity [1 or W, ...]."""
    return x[world if len(x) > 1 else 0]


def stage_of(scene: Scene, trajectory: Trajectory, size: tuple[int, int], frames: Frames = None) -> Stage:
    bare = _without_lights(scene)
    seen, shape = triangles(bare, trajectory, size, frames)
    batcher = Batcher(shape[:-1], seen.vertices.dtype, seen.vertices.device)
    assert scene.camera is not None  # or `triangles` had complained
    matrix, eye = projection(scene.camera, size, batcher.dtype, batcher.device)
    matrix, eye = batcher.per_world(matrix, (3, 3)), batcher.per_world(eye, (3,))
    surfaces = _surfaces(scene, seen, batcher)
    lights, reach = None, torch.zeros(1, 0)
    if scene.lights:
        lights = lighting(scene.lights, eye, batcher)
        lights = lights._replace(lamps=lights.lamps - lights.eye)
        start, _ = triangles(bare, trajectory, size, [0])
        bodies = [start.vertices[:, surface.own] for surface in surfaces if surface.body]
        middle = torch.linalg.solve(matrix, torch.cat(bodies or [start.vertices], 1).mean(1)[..., None])[..., 0]
        reach = (lights.lamps[:, 0] - middle[:, None]).norm(dim=-1)
    numbers = torch.searchsorted(trajectory.time, chosen_frames(trajectory, frames).time).tolist()
    return Stage(seen, shape, numbers, batcher, surfaces, matrix, lights, reach)


def _without_lights(scene: Scene) -> Scene:
    """The scene in bare colours; where its lights have a batch, the lens takes it over."""
    sizes = [
        batch_shape(value, spec.shape) for path, value, spec in scene.view_quantities() if path.startswith("lights[")
    ]
    batch = torch.broadcast_shapes(*sizes)
    camera = scene.camera
    if batch and camera is not None:
        name = "fx" if camera.fov is None else "fov"
        lens = plain(getattr(camera, name))
        lens = lens + (torch.zeros(batch).to(lens) if isinstance(lens, torch.Tensor) else np.zeros(batch))
        camera = replace(camera, **{name: lens})
    return replace(scene, lights=(), camera=camera)


def _surfaces(scene: Scene, seen: Triangles, batcher: Batcher) -> list[TracedSurface]:
    things = list(drawn(scene))
    lit = structure_of([surface for _, surface in things], True, batcher.dtype, batcher.device)
    found: list[TracedSurface] = []
    face = vertex = lit_face = lit_row = 0  # the first of the surface; where there is light each side has its own
    for (thing, surface), part in zip(things, lit.parts, strict=True):
        count = len(surface.faces)
        rows = lit.connectivity.corners[lit_face : lit_face + count].flatten().long().to(batcher.device) - lit_row
        found.append(
            TracedSurface(
                name=surface.name,
                look=surface.look,
                lit=surface.look.lit and len(scene.lights) > 0,
                body=hasattr(thing, "name"),
                own=slice(vertex, vertex + len(part.rest)),
                vertices=seen.connectivity.faces[face : face + count].flatten().long(),
                rows=seen.connectivity.corners[face : face + count].flatten().long(),
                fans=part.fans,
                normals=rows if part.normal_rows is None else part.normal_rows[rows],
                texture=_texture(seen, int(seen.connectivity.marks[face]) // 2 - 1),
            )
        )
        face, vertex = face + count, vertex + len(part.rest)
        lit_face, lit_row = lit_face + count * (1 + part.two_faced), lit_row + len(part.color_rows)
    return found


def _texture(seen: Triangles, number: int) -> torch.Tensor | None:
    """[h, w, 3]; None for the number -1."""
    if number < 0 or seen.texels is None:
        return None
    first, height, width = seen.connectivity.textures[number].tolist()
    return seen.texels[first : first + height * width].view(height, width, 3)
