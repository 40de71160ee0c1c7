"""The input of a path tracer: surfaces with unlit colours and normals, the camera, and lights."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from gradsim.render.camera import projection
from gradsim.render.job import TEXTURE
from gradsim.render.normals import SmoothingGroups
from gradsim.render.renderer import Frames
from gradsim.render.shading import Lighting, lighting
from gradsim.render.surfaces import visible_surfaces
from gradsim.render.topology import scene_topology
from gradsim.render.triangles import Triangles
from gradsim.render.view import select_frames, visible_triangles
from gradsim.scene.batcher import Batcher
from gradsim.scene.looks import Checker, Look
from gradsim.scene.quantity import batch_shape, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory


class TracerSurface(NamedTuple):
    """One surface, with separate vertices for each corner of its faces."""

    name: str
    look: Look | Checker
    lit: bool
    is_body: bool  # else a static shape
    vertex_range: slice  # its vertices, among all
    vertices: torch.Tensor  # vertex of each corner, among all, [3 F]
    rows: torch.Tensor  # row of each corner's attributes, among all, [3 F]
    groups: SmoothingGroups  # corners that share a normal, if it is lit
    normals: torch.Tensor  # normal of each corner, among the surface's, [3 F]
    texture: torch.Tensor | None  # [h, w, 3]


class TracerScene(NamedTuple):
    """All frames of all worlds. Positions are relative to the camera's eye, along the world's axes."""

    triangles: Triangles  # in unlit colours
    shape: tuple[int, ...]  # (*batch, T)
    frame_numbers: list[int]  # in the trajectory, [T]
    batcher: Batcher
    surfaces: list[TracerSurface]
    matrix: torch.Tensor  # the camera's, [1 or W, 3, 3]
    lights: Lighting | None
    light_distances: torch.Tensor  # of point lights, to the mean of the bodies at the first frame [m], [1 or W, P]

    def vertices(self, b: int) -> torch.Tensor:
        """[m], [V, 3]."""
        return torch.linalg.solve(of_world(self.matrix, b // self.shape[-1]), self.triangles.vertices[b].mT).mT

    def camera(self, b: int) -> tuple[torch.Tensor, tuple[float, float, float, float]]:
        """Unit vectors to the right, down and forward as rows, [3, 3]; fx, fy, cx, cy [px]."""
        x, y, forward = of_world(self.matrix, b // self.shape[-1])
        forward = forward / forward.norm()
        cx, cy = x @ forward, y @ forward
        fx, fy = (x - cx * forward).norm(), (y - cy * forward).norm()
        right = (x - cx * forward) / fx
        axes = torch.stack([right, torch.linalg.cross(forward, right), forward])
        return axes, (float(fx), float(fy), float(cx), float(cy))


def of_world(x: torch.Tensor, world: int) -> torch.Tensor:
    """One world's value of a quantity [1 or W, ...]."""
    return x[world if len(x) > 1 else 0]


def tracer_scene(scene: Scene, trajectory: Trajectory, size: tuple[int, int], frames: Frames = None) -> TracerScene:
    """Returns the path tracer's input for a scene and a trajectory."""
    unlit = _without_lights(scene)
    triangles, shape = visible_triangles(unlit, trajectory, size, frames)
    batcher = Batcher(shape[:-1], triangles.vertices.dtype, triangles.vertices.device)
    assert scene.camera is not None  # `visible_triangles` raised otherwise
    matrix, eye = projection(scene.camera, size, batcher.dtype, batcher.device)
    matrix, eye = batcher.per_world(matrix, (3, 3)), batcher.per_world(eye, (3,))
    surfaces = _surfaces(scene, triangles, batcher)
    lights, distances = None, torch.zeros(1, 0)
    if scene.lights:
        lights = lighting(scene.lights, eye, batcher)
        lights = lights._replace(positions=lights.positions - lights.eye)
        first, _ = visible_triangles(unlit, trajectory, size, [0])
        bodies = [first.vertices[:, surface.vertex_range] for surface in surfaces if surface.is_body]
        mean = torch.linalg.solve(matrix, torch.cat(bodies or [first.vertices], 1).mean(1)[..., None])[..., 0]
        distances = (lights.positions[:, 0] - mean[:, None]).norm(dim=-1)
    numbers = select_frames(Trajectory(torch.arange(len(trajectory)), {}, {}), frames).time.tolist()
    return TracerScene(triangles, shape, numbers, batcher, surfaces, matrix, lights, distances)


def _without_lights(scene: Scene) -> Scene:
    """The scene without lights. The field of view or focal length takes over their batch dimensions."""
    shapes = [
        batch_shape(value, spec.shape) for path, value, spec in scene.view_quantities() if path.startswith("lights[")
    ]
    batch = torch.broadcast_shapes(*shapes)
    camera = scene.camera
    if batch and camera is not None:
        name = "fx" if camera.fov is None else "fov"
        value = unwrap(getattr(camera, name))
        value = value + (torch.zeros(batch).to(value) if isinstance(value, torch.Tensor) else np.zeros(batch))
        camera = replace(camera, **{name: value})
    return replace(scene, lights=(), camera=camera)


def _surfaces(scene: Scene, triangles: Triangles, batcher: Batcher) -> list[TracerSurface]:
    visible = list(visible_surfaces(scene))
    lit = scene_topology([surface for _, surface in visible], True, batcher.dtype, batcher.device)
    found: list[TracerSurface] = []
    face = vertex = lit_face = lit_row = 0  # first of the surface; a lit topology may have separate back faces
    for (scene_object, surface), topology in zip(visible, lit.surfaces, strict=True):
        count = len(surface.faces)
        rows = lit.connectivity.corners[lit_face : lit_face + count].flatten().long().to(batcher.device) - lit_row
        found.append(
            TracerSurface(
                name=surface.name,
                look=surface.look,
                lit=surface.look.lit and len(scene.lights) > 0,
                is_body=hasattr(scene_object, "name"),
                vertex_range=slice(vertex, vertex + len(topology.rest_vertices)),
                vertices=triangles.connectivity.faces[face : face + count].flatten().long(),
                rows=triangles.connectivity.corners[face : face + count].flatten().long(),
                groups=topology.groups,
                normals=rows if topology.row_normals is None else topology.row_normals[rows],
                texture=_texture(triangles, int(triangles.connectivity.face_textures[face])),
            )
        )
        face, vertex = face + count, vertex + len(topology.rest_vertices)
        lit_face += count * (1 + topology.has_back_faces)
        lit_row += len(topology.row_colors)
    return found


def _texture(triangles: Triangles, index: int) -> torch.Tensor | None:
    """[h, w, 3]; None for index -1."""
    if index < 0 or triangles.texels is None:
        return None
    row = triangles.connectivity.textures[index].tolist()
    first, height, width = row[TEXTURE.first_texel], row[TEXTURE.height], row[TEXTURE.width]
    return triangles.texels[first : first + height * width].view(height, width, 3)
