"""From a scene and a trajectory to the triangles before its camera."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch

from gradsim.cache import Cache, cache_key
from gradsim.render.batched import joined
from gradsim.render.camera import projection
from gradsim.render.shading import Lighting, attributes, lighting
from gradsim.render.structure import Surface, structure_of
from gradsim.render.surfaces import drawn, pose_of
from gradsim.render.triangles import Triangles
from gradsim.scene.batcher import Batcher
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, MixedDevices, MixedDtypes, OutOfRange, WrongShape, WrongType
from gradsim.scene.lights import Light
from gradsim.scene.looks import Look
from gradsim.scene.quantity import batch_shape, check_known, plain
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import SmokeMotion
from gradsim.scene.trajectory import RigidMotion, Trajectory

Frames: TypeAlias = "slice | Sequence[int] | None"


def triangles(
    scene: Scene, trajectory: Trajectory, size: tuple[int, int], frames: Frames = None
) -> tuple[Triangles, tuple[int, ...]]:
    """What the scene's camera has before it, at the frames.

    Args:
        scene: With a camera and something to see.
        trajectory: Motions of the scene's bodies.
        size: Pixels (H, W).
        frames: Which of the trajectory's frames; all if None.

    Returns:
        The triangles at all frames of all batcher, flattened into B, and the shape (*batch, T) of B.
    """
    if scene.camera is None:
        remedy = "a picture needs one: gs.Scene(..., camera=gs.Camera(eye=(0, 1, 5), target=(0, 0, 0), fov=45))"
        raise InvalidInput("scene.camera", None, remedy)
    things = list(drawn(scene))
    if not things:
        raise InvalidInput("scene.bodies", "nothing to see", "give a body a gs.Look(), or the ground a gs.Checker()")
    chosen = chosen_frames(trajectory, frames)
    batcher = _common(scene, chosen)
    matrix, offset, lights = _view(scene.camera, scene.lights, size, batcher)
    surfaces = [surface for _, surface in things]
    structure = structure_of(surfaces, lights is not None and lights.directed, batcher.dtype, batcher.device)
    poses = [pose_of(thing, chosen, part, batcher) for (thing, _), part in zip(things, structure.parts, strict=True)]
    textured = len(structure.connectivity.textures) > 0
    rows = [
        attributes(part, surface.look, pose, lights, batcher, textured=textured)
        for part, surface, pose in zip(structure.parts, surfaces, poses, strict=True)
    ]
    lead = (batcher.world_count, len(chosen))
    seen = Triangles(
        connectivity=structure.connectivity,
        vertices=_flat(joined([pose.seen(matrix, offset) for pose in poses], 2), lead),
        attributes=_flat(joined(rows, 2), lead),
        texels=_texels(surfaces, batcher) if textured else None,
        background=_background(scene, size, lead, batcher),
        near=float(scene.camera.near),
    )
    return seen, (*batcher.batch, len(chosen))


def chosen_frames(trajectory: Trajectory, frames: Frames) -> Trajectory:
    """Some frames of a trajectory; it is for looking at, and cannot be continued from."""
    count = len(trajectory)
    if frames is None:
        return trajectory
    if isinstance(frames, slice):
        wanted = list(range(count))[frames]
    else:
        try:
            wanted = [operator.index(frame) for frame in frames]
        except TypeError:
            remedy = "must be None, a slice or a list of whole numbers, such as [0, -1]"
            raise WrongType("frames", repr(frames), remedy) from None
    for frame in wanted:
        if not -count <= frame < count:
            raise OutOfRange("frames", frame, f"the trajectory has {count} frames: from {-count} to {count - 1}")
    if not wanted:
        raise OutOfRange("frames", frames, f"holds none of the trajectory's {count} frames")
    if isinstance(frames, slice) and (frames.step or 1) > 0:
        return trajectory[frames]
    pick: Any = torch.tensor(wanted, device=trajectory.time.device)
    return Trajectory(trajectory.time[pick], {name: motion.at(pick) for name, motion in trajectory.motions.items()}, {})


def _view(
    camera: Camera, lights: Sequence[Light], size: tuple[int, int], batcher: Batcher
) -> tuple[torch.Tensor, torch.Tensor, Lighting | None]:
    """The camera's map to pixels, matrix [1 or W, 3, 3] @ x + offset [1 or W, 3], and the lights."""

    def build() -> tuple[torch.Tensor, torch.Tensor, Lighting | None]:
        matrix, eye = projection(camera, size, batcher.dtype, batcher.device)
        matrix, eye = batcher.per_world(matrix, (3, 3)), batcher.per_world(eye, (3,))
        offset = -(matrix @ eye[..., None])[..., 0]
        return matrix, offset, lighting(lights, eye, batcher) if lights else None

    key = cache_key(camera, lights)
    return _views.get(None if key is None else (key, size, batcher.key), build)


_views: Cache[tuple[torch.Tensor, torch.Tensor, Lighting | None]] = Cache(64)
_commons: WeakKeyDictionary[Scene, tuple[Any, ...]] = WeakKeyDictionary()


def _common(scene: Scene, trajectory: Trajectory) -> Batcher:
    """Batch of the trajectory and of all that is seen, with the trajectory's dtype and device."""
    batch: tuple[int, ...] = ()
    for motion in trajectory.motions.values():
        if isinstance(motion, RigidMotion):
            batch = _broadcast(batch, motion.rotation.shape[:-2])
        elif not isinstance(motion, SmokeMotion):
            batch = _broadcast(batch, motion.vertices.shape[:-3])
    dtype, device = trajectory.time.dtype, trajectory.time.device
    if scene not in _commons:
        _commons[scene] = _batched_and_tensors(scene)
    batched, tensors = _commons[scene]
    for path, own in batched:
        try:
            batch = _broadcast(batch, own)
        except RuntimeError:
            remedy = f"does not broadcast with the batch {tuple(batch)} of the trajectory and the quantities before it"
            raise WrongShape(path, f"batch {own}", remedy) from None
    for path, own_dtype, own_device in tensors:
        if own_dtype != dtype:
            raise MixedDtypes(path, own_dtype, f"the trajectory is {dtype}; all tensors must share one dtype")
        if own_device != device:
            raise MixedDevices(path, own_device, f"the trajectory is on {device}; all tensors must share a device")
    if 0 in batch:
        raise WrongShape("batch", tuple(batch), "a batch needs at least one world")
    return Batcher(tuple(batch), dtype, device)


def _batched_and_tensors(scene: Scene) -> tuple[Any, ...]:
    """Of what is seen the batches, with their paths, and the types and devices of tensors; none may be unknown."""
    batched, tensors = [], []
    for path, value, spec in scene.view_quantities():
        check_known(path, value)
        own, array = batch_shape(value, spec.shape), plain(value)
        if own:
            batched.append((path, own))
        if isinstance(array, torch.Tensor):
            tensors.append((path, array.dtype, array.device))
    return tuple(batched), tuple(tensors)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(tuple(a), tuple(b))) if a and b else tuple(a or b)


def _flat(x: torch.Tensor, lead: tuple[int, int]) -> torch.Tensor:
    """[1 or W, 1 or T, n, k] as [B, n, k], without a copy where all frames share it."""
    if x.shape[:2] == (1, 1):
        return x[0].expand(lead[0] * lead[1], -1, -1)
    return x.expand(*lead, -1, -1).reshape(lead[0] * lead[1], *x.shape[2:])


def _texels(surfaces: list[Surface], batcher: Batcher) -> torch.Tensor:
    """Of all textures, [N, 3]."""
    textures = [surface.look.texture for surface in surfaces if isinstance(surface.look, Look)]
    given = [plain(texture) for texture in textures if texture is not None]
    return torch.cat([batcher.per_world(texture, tuple(texture.shape)).reshape(-1, 3) for texture in given])


def _background(scene: Scene, size: tuple[int, int], lead: tuple[int, int], batcher: Batcher) -> torch.Tensor:
    """[1 or B, 1, 1, 3] or [1 or B, H, W, 3]."""
    given: Any = scene.background
    pixels = tuple(given.shape[-3:]) if given.ndim > 2 else (1, 1, 3)
    if pixels not in ((*size, 3), (1, 1, 3)):
        shown = f"image of {pixels[0]} x {pixels[1]}"
        raise WrongShape("scene.background", shown, f"must have the size of the picture, {size[0]} x {size[1]}")
    x = batcher.per_world(given, pixels if given.ndim > 2 else (3,)).reshape(-1, *pixels)
    return x if len(x) == 1 else x[:, None].expand(*lead, *pixels).reshape(-1, *pixels)
