"""The camera: where it stands, which way it looks, and how it maps what it sees to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import Quantity, quantity, to_numpy, validate_quantities

UP = (0.0, 1.0, 0.0)
FOV = 45.0  # [degrees]
RIGID = 1e-4  # how far a pose's rotation may be from orthonormal: poses are often written with few digits


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera.

    An image of H x W pixels spans [0, W] x [0, H], x to the right and y down: the centre of the first pixel lies at
    (0.5, 0.5). All of the camera's quantities but `resolution` and `near` are differentiable and may have a batch.

    Where it stands, either by looking at something or by a pose:

    Args:
        eye: Where the camera is [m], [..., 3].
        target: A point in the middle of the picture, without a shifted principal point [m], [..., 3].
        up: Direction that points up in the picture, [..., 3]; (0, 1, 0) if None.
        pose: From the camera's axes to the world, [..., 4, 4], with OpenCV's axes: x to the right, y down, z forward.
            Its columns are right, down, forward and the eye's position [m], its last row is (0, 0, 0, 1). OpenCV's
            extrinsics [R | t] go the other way, from the world to the camera: `pose` is their inverse.
        fov: Vertical field of view in DEGREES, unlike all other angles, [...]; 45 if it and `fx` are None. Pixels are
            square and the optical axis meets the middle of the image. Or, instead,
        fx, fy: Focal lengths [pixel], [...].
        cx, cy: Principal point [pixel], [...], in the coordinates above; OpenCV counts from the centre of the first
            pixel, so add 0.5 to its values.
        resolution: Pixels (H, W) that fx, fy, cx, cy were calibrated for; images of another size get scaled ones.
        near: What is closer than this depth is cut off [m].
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
        self._complete()
        validate_quantities(self, "camera")
        if self.pose is None:
            self._check_view()
        else:
            self._check_pose()
        if isinstance(self.near, bool) or not isinstance(self.near, (int, float)):
            raise WrongType("camera.near", repr(self.near), "must be a number [m]")
        if not 0.0 < self.near < float("inf"):
            raise OutOfRange("camera.near", self.near, "must be > 0 and finite [m]")

    def _given(self, *names: str) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _complete(self) -> None:
        """Exactly one description of the place and one of the lens, with what may be left out filled in."""
        place, lens = self._given("eye", "target", "up"), self._given("fx", "fy", "cx", "cy", "resolution")
        if self.pose is not None and place:
            raise InvalidInput(
                "camera.pose", f"given with {', '.join(place)}", "give a pose, or eye and target, not both"
            )
        if self.pose is None and len(self._given("eye", "target")) < 2:
            raise InvalidInput(
                "camera.eye/target",
                ", ".join(place) or "neither",
                "give eye and target, or a pose: where is the camera?",
            )
        if self.fov is not None and lens:
            raise InvalidInput("camera.fov", f"given with {', '.join(lens)}", "give fov, or fx, fy, cx, cy, not both")
        if lens and len(lens) < 5:
            raise InvalidInput(
                "camera.fx/fy/cx/cy", f"only {', '.join(lens)}", "give all of fx, fy, cx, cy and resolution=(H, W)"
            )
        if self.pose is None and self.up is None:
            object.__setattr__(self, "up", UP)
        if self.fov is None and not lens:
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
                "camera.target", "equal to camera.eye", "must lie away from the eye: where does it look?"
            )
        if np.any(length == 0.0):
            raise OutOfRange("camera.up", "(0, 0, 0)", "must not be the zero vector")
        if np.any(np.linalg.norm(np.cross(view, up), axis=-1) <= 1e-9 * distance * length):
            raise InvalidInput(
                "camera.up", "parallel to the view", "must point aside, such as (0, 0, 1) from straight above"
            )

    def _check_pose(self) -> None:
        pose = to_numpy(self.pose)
        if pose is None:
            return
        rotation, last = pose[..., :3, :3], pose[..., 3, :]
        if np.abs(last - np.array([0.0, 0.0, 0.0, 1.0])).max() > 1e-9:
            raise InvalidInput("camera.pose", f"last row {last.reshape(-1, 4)[0]}", "the last row must be (0, 0, 0, 1)")
        off = float(np.abs(rotation @ rotation.swapaxes(-1, -2) - np.eye(3)).max())
        if off > RIGID:
            raise InvalidInput(
                "camera.pose",
                f"R R' is off the identity by {off:.2g}",
                "its upper left 3 x 3 must be a rotation, unscaled",
            )
        if np.linalg.det(rotation).min() < 0:
            raise InvalidInput(
                "camera.pose", "a reflection", "its axes must be right-handed: x right, y down, z forward (OpenCV)"
            )


def checked_pixels(name: str, size: Any) -> tuple[int, int]:
    """An image's size, (H, W)."""
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError):
        raise WrongType(name, repr(size), "must be two whole numbers of pixels (H, W)") from None
    if (height, width) != tuple(size) or min(height, width) < 1:
        raise OutOfRange(name, tuple(size), "must be whole numbers of pixels (H, W), each >= 1")
    return height, width
