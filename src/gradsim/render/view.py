"""The triangles in front of a scene's camera, at the frames of a trajectory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gradsim.cache import Cache, cache_key
from gradsim.render.batched import concatenate
from gradsim.render.camera import projection
from gradsim.render.job import ATTRIBUTE_COUNT
from gradsim.render.renderer import Frames
from gradsim.render.shading import Lighting, corner_attributes, lighting
from gradsim.render.surfaces import surface_pose, visible_surfaces
from gradsim.render.topology import Surface, scene_topology
from gradsim.render.triangles import Triangles
from gradsim.scene.batcher import Batcher
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, MixedDevices, MixedDtypes, OutOfRange, WrongShape, WrongType
from gradsim.scene.lights import Light
from gradsim.scene.looks import Look
from gradsim.scene.quantity import batch_shape, check_known, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import SmokeMotion
from gradsim.scene.trajectory import RigidMotion, Trajectory
from gradsim.video.downsample import downsample
from gradsim.video.video import check_aspect_ratio


def visible_triangles(
    scene: Scene, trajectory: Trajectory, size: tuple[int, int], frames: Frames = None
) -> tuple[Triangles, tuple[int, ...]]:
    """Returns the triangles of all visible surfaces, shaded and projected by the scene's camera.

    Args:
        scene: A scene with a camera and at least one visible surface.
        trajectory: Motions of the scene's bodies.
        size: Height and width of the image [px].
        frames: Frames of the trajectory; all if None.

    Returns:
        The triangles at all frames of all worlds, flattened into B, and the shape (*batch, T) of B.
    """
    if scene.camera is None:
        remedy = "rendering needs one: gs.Scene(..., camera=gs.Camera(eye=(0, 1, 5), target=(0, 0, 0), fov=45))"
        raise InvalidInput("scene.camera", None, remedy)
    visible = list(visible_surfaces(scene))
    if not visible:
        remedy = "give a body a gs.Look(), or the ground a gs.Checker()"
        raise InvalidInput("scene.bodies", "no visible surface", remedy)
    surfaces = [surface for _, surface in visible]
    trajectory = select_frames(trajectory, frames)
    batcher = common_batcher(scene, trajectory)
    matrix, offset, lights = _view(scene.camera, scene.lights, size, batcher)
    topology = scene_topology(surfaces, lights is not None and lights.directed, batcher.dtype, batcher.device)
    poses = [
        surface_pose(scene_object, trajectory, own, batcher)
        for (scene_object, _), own in zip(visible, topology.surfaces, strict=True)
    ]
    textured = len(topology.connectivity.textures) > 0
    attribute_count = ATTRIBUTE_COUNT.textured if textured else ATTRIBUTE_COUNT.plain
    attributes = [
        corner_attributes(own, surface.look, pose, lights, batcher, attribute_count)
        for own, surface, pose in zip(topology.surfaces, surfaces, poses, strict=True)
    ]
    lead = (batcher.world_count, len(trajectory))
    triangles = Triangles(
        connectivity=topology.connectivity,
        vertices=_flattened(concatenate([pose.project(matrix, offset) for pose in poses], 2), lead),
        attributes=_flattened(concatenate(attributes, 2), lead),
        texels=_texels(surfaces, batcher) if textured else None,
        background=_background(scene, size, lead, batcher),
        near=float(scene.camera.near),
    )
    return triangles, (*batcher.batch, len(trajectory))


def select_frames(trajectory: Trajectory, frames: Frames) -> Trajectory:
    """Returns some frames of a trajectory, without the states that a simulation could continue from."""
    count = len(trajectory)
    if frames is None:
        return trajectory
    if isinstance(frames, slice):
        indices = list(range(count))[frames]
    else:
        try:
            indices = [operator.index(frame) for frame in frames]
        except TypeError:
            remedy = "must be None, a slice or a list of whole numbers, such as [0, -1]"
            raise WrongType("frames", repr(frames), remedy) from None
    for frame in indices:
        if not -count <= frame < count:
            raise OutOfRange("frames", frame, f"the trajectory has {count} frames: from {-count} to {count - 1}")
    if not indices:
        raise OutOfRange("frames", frames, f"selects none of the trajectory's {count} frames")
    if isinstance(frames, slice) and (frames.step or 1) > 0:
        return trajectory[frames]
    pick: Any = torch.tensor(indices, device=trajectory.time.device)
    return Trajectory(
        trajectory.time[..., pick], {name: motion.at(pick) for name, motion in trajectory.motions.items()}, {}
    )


_views: Cache[tuple[torch.Tensor, torch.Tensor, Lighting | None]] = Cache(64)


def _view(
    camera: Camera, lights: Sequence[Light], size: tuple[int, int], batcher: Batcher
) -> tuple[torch.Tensor, torch.Tensor, Lighting | None]:
    """The camera's projection to homogeneous pixels, matrix [1 or W, 3, 3] @ x + offset [1 or W, 3], and the lights."""

    def build() -> tuple[torch.Tensor, torch.Tensor, Lighting | None]:
        matrix, eye = projection(camera, size, batcher.dtype, batcher.device)
        matrix, eye = batcher.per_world(matrix, (3, 3)), batcher.per_world(eye, (3,))
        offset = -(matrix @ eye[..., None])[..., 0]
        return matrix, offset, lighting(lights, eye, batcher) if lights else None

    key = cache_key(camera, lights)
    return _views.get(None if key is None else (key, size, batcher.key), build)


_batches: WeakKeyDictionary[Scene, tuple[Any, ...]] = WeakKeyDictionary()  # a frozen scene keeps its batch and types


def common_batcher(scene: Scene, trajectory: Trajectory) -> Batcher:
    """The common batch of the trajectory and all visible quantities, with the trajectory's dtype and device."""
    batch: tuple[int, ...] = ()
    for motion in trajectory.motions.values():
        if isinstance(motion, RigidMotion):
            batch = _broadcast(batch, motion.rotation.shape[:-2])
        elif not isinstance(motion, SmokeMotion):
            batch = _broadcast(batch, motion.vertices.shape[:-3])
    dtype, device = trajectory.time.dtype, trajectory.time.device
    if scene not in _batches:
        _batches[scene] = _batches_and_types(scene)
    batches, types = _batches[scene]
    for path, own in batches:
        try:
            batch = _broadcast(batch, own)
        except RuntimeError:
            remedy = f"does not broadcast with the batch {tuple(batch)} of the trajectory and the quantities before it"
            raise WrongShape(path, f"batch {own}", remedy) from None
    for path, own_dtype, own_device in types:
        if own_dtype != dtype:
            raise MixedDtypes(path, own_dtype, f"the trajectory is {dtype}; all tensors must share one dtype")
        if own_device != device:
            raise MixedDevices(path, own_device, f"the trajectory is on {device}; all tensors must share a device")
    if 0 in batch:
        raise WrongShape("batch", tuple(batch), "a batch needs at least one world")
    return Batcher(tuple(batch), dtype, device)


def _batches_and_types(scene: Scene) -> tuple[Any, ...]:
    """Batch shapes of visible quantities by path, and dtypes and devices of tensors by path; none may be unknown."""
    batches, types = [], []
    for path, value, spec in scene.view_quantities():
        check_known(path, value)
        own, array = batch_shape(value, spec.shape), unwrap(value)
        if own:
            batches.append((path, own))
        if isinstance(array, torch.Tensor):
            types.append((path, array.dtype, array.device))
    return tuple(batches), tuple(types)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(tuple(a), tuple(b))) if a and b else tuple(a or b)


def _flattened(x: torch.Tensor, lead: tuple[int, int]) -> torch.Tensor:
    """[1 or W, 1 or T, n, k] as [B, n, k], without a copy if all frames share it."""
    if x.shape[:2] == (1, 1):
        return x[0].expand(lead[0] * lead[1], -1, -1)
    return x.expand(*lead, -1, -1).reshape(lead[0] * lead[1], *x.shape[2:])


def _texels(surfaces: list[Surface], batcher: Batcher) -> torch.Tensor:
    """Texels of all textures, [N, 3]."""
    textures = [surface.look.texture for surface in surfaces if isinstance(surface.look, Look)]
    given = [unwrap(texture) for texture in textures if texture is not None]
    return torch.cat([batcher.per_world(texture, tuple(texture.shape)).reshape(-1, 3) for texture in given])


def _background(scene: Scene, size: tuple[int, int], lead: tuple[int, int], batcher: Batcher) -> torch.Tensor:
    """[1 or B, 1, 1, 3] or [1 or B, H, W, 3]; a larger image is averaged over areas."""
    given: Any = scene.background
    pixels = tuple(given.shape[-3:]) if given.ndim > 2 else (1, 1, 3)
    x = batcher.per_world(given, pixels if given.ndim > 2 else (3,)).reshape(-1, *pixels)
    if pixels not in ((*size, 3), (1, 1, 3)):
        _check_background(pixels[:2], size)
        x, pixels = downsample(x, size), (*size, 3)
    return x if len(x) == 1 else x[:, None].expand(*lead, *pixels).reshape(-1, *pixels)


def _check_background(pixels: tuple[int, ...], size: tuple[int, int]) -> None:
    """Raises WrongShape unless an image can be reduced to a size without distortion."""
    (height, width), found = pixels, f"image of {pixels[0]} x {pixels[1]}"
    if height < size[0] or width < size[1]:
        remedy = f"must be at least as large as the rendered image, {size[0]} x {size[1]}"
        raise WrongShape("scene.background", found, remedy)
    try:
        check_aspect_ratio((height, width), size)
    except OutOfRange:
        remedy = f"must have the aspect ratio of the rendered image, {size[0]} x {size[1]}: crop it"
        raise WrongShape("scene.background", found, remedy) from None
