"""The pinhole camera: pose and intrinsics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.memory import check_memory
from gradsim.scene.quantity import Quantity, quantity, to_numpy, unwrap
from gradsim.scene.validation import check_positive_length, validate_quantities

UP = (0.0, 1.0, 0.0)
PIXEL_BYTES = 200  # of memory to render one pixel, about
FOV = 45.0  # [degrees]
ORTHONORMAL_TOLERANCE = 1e-4  # of the rotation of a pose: poses are often stored with few digits


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera.

    An image of H x W pixels spans [0, W] x [0, H], x to the right and y down: the centre of the first pixel lies at
    (0.5, 0.5). All quantities except `resolution` and `near` are differentiable and may have a batch.

    The extrinsics are given by `eye` and `target`, by `target` and `distance` or `view_height`, or by `pose`; the
    intrinsics either by `fov` or by `fx`, `fy`, `cx`, `cy` and `resolution`.

    Example:
        `gs.Camera(eye=(0.0, 1.0, 5.0), target=(0.0, 0.5, 0.0), fov=40.0)`

    Args:
        eye: Position of the camera [m], [..., 3].
        target: Point on the optical axis [m], [..., 3].
        up: Direction that points up in the image, [..., 3]; (0, 1, 0) if None.
        distance: Distance of the camera from the target [m], [...], with `pitch`, `yaw` and `roll` in place of `eye`
            and `up`. Without angles the camera is level and looks along -z.
        view_height: Height of what the picture shows in the plane through the target [m], [...], in place of
            `distance`, which follows from it and from the intrinsics. The scale of the picture is then independent of
            the field of view.
        pitch: Angle by which the camera is raised about the target and looks down [rad], [...].
        yaw: Angle by which it is moved to the right about the target and looks to the left [rad], [...].
        roll: Angle by which its top leans to the right [rad], [...].
        pose: Camera-to-world transform, [..., 4, 4], with OpenCV's axes: x to the right, y down, z forward. Its columns
            are right, down, forward and the eye's position [m], its last row is (0, 0, 0, 1). OpenCV's extrinsics
            [R | t] are world-to-camera: `pose` is their inverse.
        fov: Vertical field of view in DEGREES, unlike all other angles, [...]; 45 if no intrinsics are given. Pixels
            are square and the principal point is the centre of the image.
        fx, fy: Focal lengths [pixel], [...].
        cx, cy: Principal point [pixel], [...], in the coordinates above; OpenCV measures from the centre of the first
            pixel, so add 0.5 to its values.
        resolution: Pixels (H, W) that fx, fy, cx, cy were calibrated for; they are scaled for images of another size.
        near: Depth of the near clipping plane [m].
    """

    eye: Quantity | None = quantity(None, "m", shape=(3,))
    target: Quantity | None = quantity(None, "m", shape=(3,))
    _: KW_ONLY
    up: Quantity | None = quantity(None, "1", shape=(3,))
    fov: Quantity | None = quantity(None, "degrees", above=0.0, below=180.0)
    distance: Quantity | None = quantity(None, "m", above=0.0)
    view_height: Quantity | None = quantity(None, "m", above=0.0)
    pitch: Quantity | None = quantity(None, "rad", above=-math.pi / 2, below=math.pi / 2)
    yaw: Quantity | None = quantity(None, "rad")
    roll: Quantity | None = quantity(None, "rad")
    pose: Quantity | None = quantity(None, "1", shape=(4, 4))
    fx: Quantity | None = quantity(None, "pixel", above=0.0)
    fy: Quantity | None = quantity(None, "pixel", above=0.0)
    cx: Quantity | None = quantity(None, "pixel")
    cy: Quantity | None = quantity(None, "pixel")
    resolution: Sequence[int] | None = None
    near: float = 0.01

    def __post_init__(self) -> None:
        self._check_alternatives()
        self._set_defaults()
        validate_quantities(self, "camera")
        if self.pose is None:
            self._check_view()
        else:
            self._check_pose()
        check_positive_length("camera.near", self.near)

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _missing(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is None]

    def with_eye(self) -> Camera:
        """Returns the same camera given by `eye`, `target` and `up`, if it is given by its distance and angles."""
        if not self._given("distance", "view_height"):
            return self
        given = self.distance if self.view_height is None else self._view_distance()
        distance, yaw, pitch, roll, target = _tensors(given, self.yaw, self.pitch, self.roll, self.target)
        zero, (a, b) = torch.zeros_like(yaw * pitch), torch.broadcast_tensors(yaw, pitch)
        back = torch.stack([torch.sin(a) * torch.cos(b), torch.sin(b), torch.cos(a) * torch.cos(b)], -1)
        right = torch.stack([torch.cos(a), zero, -torch.sin(a)], -1)
        above = torch.linalg.cross(back, right)
        up = torch.cos(roll)[..., None] * above + torch.sin(roll)[..., None] * right
        eye = target + distance[..., None] * back
        return replace(self, eye=eye, up=up, distance=None, view_height=None, pitch=None, yaw=None, roll=None)

    def _view_distance(self) -> torch.Tensor:
        """Returns the distance from the target at which the picture shows `view_height` [m], [...]."""
        if self.fov is not None:
            height, fov = _tensors(self.view_height, self.fov)
            return 0.5 * height / torch.tan(torch.deg2rad(0.5 * fov))
        assert self.resolution is not None
        height, focal = _tensors(self.view_height, self.fy)
        return height * focal / self.resolution[0]

    def _check_alternatives(self) -> None:
        """Raises InvalidInput unless there is exactly one description of the extrinsics and at most one of the lens."""
        view, lens = self._given("eye", "target", "up"), self._given("fx", "fy", "cx", "cy", "resolution")
        orbit, angles = self._given("eye", "up"), self._given("pitch", "yaw", "roll")
        away = self._given("distance", "view_height")
        if self.pose is not None and (view or angles or away):
            given = ", ".join([*view, *away, *angles])
            raise InvalidInput("camera.pose", f"given with {given}", "give a pose, or eye and target, not both")
        if len(away) == 2:
            remedy = "give one of them: the other follows from the field of view"
            raise InvalidInput("camera.view_height", "given with distance", remedy)
        if away and orbit:
            remedy = f"give the {away[0].replace('_', ' ')} with pitch, yaw and roll, or eye and up, not both"
            raise InvalidInput(f"camera.{away[0]}", f"given with {', '.join(orbit)}", remedy)
        if angles and not away:
            remedy = "angles need target= and distance=; a camera with eye= and target= has a direction already"
            raise InvalidInput(f"camera.{angles[0]}", "given without distance", remedy)
        if self.pose is None and len([*self._given("eye"), *away]) + len(self._given("target")) < 2:
            remedy = "give eye and target, target and distance, or a pose"
            raise InvalidInput("camera.eye/target", ", ".join(view) or "neither", remedy)
        if self.fov is not None and lens:
            raise InvalidInput("camera.fov", f"given with {', '.join(lens)}", "give fov, or fx, fy, cx, cy, not both")
        if lens and len(lens) < 5:
            raise InvalidInput(
                "camera.fx/fy/cx/cy", f"only {', '.join(lens)}", "give all of fx, fy, cx, cy and resolution=(H, W)"
            )

    def _set_defaults(self) -> None:
        if self._given("distance", "view_height"):
            for name in self._missing("pitch", "yaw", "roll"):
                object.__setattr__(self, name, 0.0)
        elif self.pose is None and self.up is None:
            object.__setattr__(self, "up", UP)
        if self.fov is None and self.fx is None:
            object.__setattr__(self, "fov", FOV)
        if self.resolution is not None:
            object.__setattr__(self, "resolution", checked_pixels("camera.resolution", self.resolution))

    def _check_view(self) -> None:
        eye, target, up = to_numpy(self.eye), to_numpy(self.target), to_numpy(self.up)
        if eye is None or target is None or up is None:
            return
        try:
            view, up = np.broadcast_arrays(target - eye, up)
        except ValueError:
            raise WrongShape("camera.eye/target/up", "batches that differ", "must broadcast with each other") from None
        distance, length = np.linalg.norm(view, axis=-1), np.linalg.norm(up, axis=-1)
        if np.any(distance == 0.0):
            raise InvalidInput(
                "camera.target", "equal to camera.eye", "must differ from the eye: give a point to look at"
            )
        if np.any(length == 0.0):
            raise OutOfRange("camera.up", "(0, 0, 0)", "must not be the zero vector")
        if np.any(np.linalg.norm(np.cross(view, up), axis=-1) <= 1e-9 * distance * length):
            raise InvalidInput(
                "camera.up", "parallel to the view", "must not be parallel; use (0, 0, 1) to look straight down"
            )

    def _check_pose(self) -> None:
        pose = to_numpy(self.pose)
        if pose is None:
            return
        rotation, last = pose[..., :3, :3], pose[..., 3, :]
        if np.abs(last - np.array([0.0, 0.0, 0.0, 1.0])).max() > 1e-9:
            raise InvalidInput("camera.pose", f"last row {last.reshape(-1, 4)[0]}", "the last row must be (0, 0, 0, 1)")
        off = float(np.abs(rotation @ rotation.swapaxes(-1, -2) - np.eye(3)).max())
        if off > ORTHONORMAL_TOLERANCE:
            raise InvalidInput(
                "camera.pose",
                f"R R' is off the identity by {off:.2g}",
                "its upper left 3 x 3 block must be a rotation without scaling",
            )
        if np.linalg.det(rotation).min() < 0:
            raise InvalidInput(
                "camera.pose", "a reflection", "its axes must be right-handed: x right, y down, z forward (OpenCV)"
            )


def _tensors(*values: Any) -> list[torch.Tensor]:
    """Returns quantities as tensors of one precision."""
    arrays = [unwrap(value) for value in values]
    known = next((array for array in arrays if isinstance(array, torch.Tensor)), None)
    options: dict[str, Any] = (
        {"dtype": torch.float64} if known is None else {"dtype": known.dtype, "device": known.device}
    )
    return [array if isinstance(array, torch.Tensor) else torch.as_tensor(array, **options) for array in arrays]


def checked_pixels(name: str, size: Any) -> tuple[int, int]:
    """Returns a valid image size (H, W)."""
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise WrongType(name, repr(size), "must be two whole numbers of pixels (H, W)") from None
    if (height, width) != tuple(size) or min(height, width) < 1:
        raise OutOfRange(name, tuple(size), "must be whole numbers of pixels (H, W), each >= 1")
    check_memory(name, (height, width), PIXEL_BYTES * float(height) * width, "give a smaller image")
    return height, width
