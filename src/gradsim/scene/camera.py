"""The pinhole camera: pose and intrinsics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import Quantity, quantity, to_numpy
from gradsim.scene.validation import check_positive_length, validate_quantities

UP = (0.0, 1.0, 0.0)
FOV = 45.0  # [degrees]
ORTHONORMAL_TOLERANCE = 1e-4  # of the rotation of a pose: poses are often stored with few digits


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera.

    An image of H x W pixels spans [0, W] x [0, H], x to the right and y down: the centre of the first pixel lies at
    (0.5, 0.5). All quantities except `resolution` and `near` are differentiable and may have a batch.

    The extrinsics are given either by `eye` and `target` or by `pose`; the intrinsics either by `fov` or by `fx`, `fy`,
    `cx`, `cy` and `resolution`.

    Args:
        eye: Position of the camera [m], [..., 3].
        target: Point on the optical axis [m], [..., 3].
        up: Direction that points up in the image, [..., 3]; (0, 1, 0) if None.
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

    def _check_alternatives(self) -> None:
        """Raises InvalidInput unless there is exactly one description of the extrinsics and at most one of the lens."""
        view, lens = self._given("eye", "target", "up"), self._given("fx", "fy", "cx", "cy", "resolution")
        if self.pose is not None and view:
            raise InvalidInput(
                "camera.pose", f"given with {', '.join(view)}", "give a pose, or eye and target, not both"
            )
        if self.pose is None and len(self._given("eye", "target")) < 2:
            raise InvalidInput("camera.eye/target", ", ".join(view) or "neither", "give eye and target, or a pose")
        if self.fov is not None and lens:
            raise InvalidInput("camera.fov", f"given with {', '.join(lens)}", "give fov, or fx, fy, cx, cy, not both")
        if lens and len(lens) < 5:
            raise InvalidInput(
                "camera.fx/fy/cx/cy", f"only {', '.join(lens)}", "give all of fx, fy, cx, cy and resolution=(H, W)"
            )

    def _set_defaults(self) -> None:
        if self.pose is None and self.up is None:
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


def checked_pixels(name: str, size: Any) -> tuple[int, int]:
    """Returns a valid image size (H, W)."""
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError):
        raise WrongType(name, repr(size), "must be two whole numbers of pixels (H, W)") from None
    if (height, width) != tuple(size) or min(height, width) < 1:
        raise OutOfRange(name, tuple(size), "must be whole numbers of pixels (H, W), each >= 1")
    return height, width
