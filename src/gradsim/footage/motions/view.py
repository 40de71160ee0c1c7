"""The view of a recording: from pixels to metres in the plane of the motion.

The world has x to the right, y up and z to the camera. The camera looks at the origin, which lies in the plane of the
motion, z = 0, in the middle of the picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from gradsim.footage.measured import Measured
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput
from gradsim.scene.priors import LogNormal, Normal
from gradsim.scene.unknown import unknown

STANDARD_GRAVITY = 9.81  # [m/s^2]
TILT = math.radians(1.0)  # standard deviation of the roll of a camera, and of the pitch of one that was levelled [rad]
PITCH = math.radians(8.0)  # and of the pitch of one that was not
YAW = math.radians(5.0)  # standard deviation of the angle between the plane of a pendulum and the picture [rad]
LOCAL_GRAVITY = 0.02  # standard deviation of gravity between places on Earth [m/s^2]
ANY_DIAMETER = 0.1  # of an object whose size does not matter [m]
MAX_APPROACH = 0.4  # of an object towards the camera before the scale was measured, relative to the distance
FOCAL_RANGE = 2.0  # factor between an uncertain focal length and its bounds
FREE_RANGE = 4.0  # factor between the guess of an unknown distance and its bounds


@dataclass(frozen=True)
class View:
    """Camera, scale and what else is known about a recording.

    Args:
        size: Height and width of the picture [px].
        focal: Focal length [px].
        scale: Pixels per metre in the plane of the motion, with a relative standard deviation; None if unknown.
        diameter_px: Diameter of the object [px].
        diameter: Diameter of the object [m]; None if unknown.
        mass: Mass of the object [kg]; None if unknown.
        gravity: Known gravity [m/s^2]; None to estimate it where that is possible.
        floor: Line of the floor in the picture (x1, y1, x2, y2) [px]; None if unknown.
        tilt: Standard deviation of the roll of the camera [rad].
        pitch: Standard deviation of its pitch [rad].
    """

    size: tuple[int, int]
    focal: Measured
    scale: Measured | None
    diameter_px: float
    diameter: float | None = None
    mass: float | None = None
    gravity: float | None = None
    floor: tuple[float, float, float, float] | None = None
    tilt: float = TILT
    pitch: float = PITCH

    @property
    def pixels_per_metre(self) -> float:
        """The scale, which must be known or guessed."""
        if self.scale is None:
            raise InvalidInput("scale", None, "the motion does not determine it: give --scale or --diameter")
        return self.scale.value

    @property
    def gravity_or_standard(self) -> float:
        """Known gravity, or the standard one [m/s^2]."""
        return STANDARD_GRAVITY if self.gravity is None else self.gravity

    @property
    def distance(self) -> float:
        """Distance of the camera from the plane of the motion [m]."""
        return self.focal.value / self.pixels_per_metre

    @property
    def radius(self) -> float:
        """Radius of the object [m]."""
        return 0.5 * (self.diameter_px / self.pixels_per_metre if self.diameter is None else self.diameter)

    def at_start(self, drift: Measured, duration: float) -> View:
        """Returns the view with the scale at the start of a motion, where the object has another distance.

        Args:
            drift: Speed of the object towards the camera, over its distance [1/s].
            duration: Time from the start until the object is where the scale was measured [s].
        """
        if self.scale is None:
            return self
        smaller = 1.0 / (1.0 + min(max(drift.value * duration, -MAX_APPROACH), MAX_APPROACH))
        relative = math.hypot(self.scale.relative_sd, drift.sd * duration * smaller)
        scale = replace(self.scale, value=smaller * self.scale.value, sd=smaller * relative * self.scale.value)
        return replace(self, scale=scale, diameter_px=smaller * self.diameter_px)

    def scaled_by_gravity(self, acceleration: float) -> View:
        """Returns the view with a scale from the acceleration of a fall [px/s^2], if no scale is known."""
        return self.with_scale_guess(abs(acceleration) / self.gravity_or_standard)

    def with_scale_guess(self, pixels_per_metre: float) -> View:
        """Returns the view with a scale that is only a guess, unless one is known. Gravity is then known."""
        if self.scale is not None:
            return self
        guess = Measured(pixels_per_metre, math.inf, "px/m", "the motion under known gravity")
        return replace(self, scale=guess, gravity=self.gravity_or_standard)

    def required_scale(self, motion: str) -> View:
        """Returns the view if its scale is known, which this motion does not determine."""
        if self.scale is None:
            remedy = f"a {motion} does not determine it: give --scale x1,y1,x2,y2,length or --diameter"
            raise InvalidInput("scale", None, remedy)
        return self

    def with_any_scale(self) -> View:
        """Returns the view with some scale, for a motion whose answer does not depend on it."""
        some = Measured(self.diameter_px / ANY_DIAMETER, 0.01 * self.diameter_px / ANY_DIAMETER, "px/m", "arbitrary")
        return replace(self, scale=some) if self.scale is None else self

    def plane_point(self, pixel: tuple[float, float]) -> tuple[float, float]:
        """Returns the point of the plane of the motion (x, y) [m] that is seen at a pixel."""
        height, width = self.size
        return (pixel[0] - width / 2) / self.pixels_per_metre, (height / 2 - pixel[1]) / self.pixels_per_metre

    def plane_vector(self, pixels: tuple[float, float]) -> tuple[float, float]:
        """Returns a vector in the plane of the motion, y up [m], from one in the picture, y down [px]."""
        return pixels[0] / self.pixels_per_metre, -pixels[1] / self.pixels_per_metre

    @property
    def local_gravity(self) -> tuple[Any, Any, Any]:
        """Known gravity [m/s^2], which differs between places on Earth unless it was given."""
        if self.gravity is not None:
            return 0.0, -self.gravity, 0.0
        return 0.0, unknown(-STANDARD_GRAVITY, prior=Normal(-STANDARD_GRAVITY, LOCAL_GRAVITY), nuisance=True), 0.0

    def gravity_quantity(self, acceleration: float) -> tuple[Any, Any, Any]:
        """Returns gravity [m/s^2]: known, or an unknown that starts with an acceleration in the picture [px/s^2]."""
        if self.gravity is not None:
            return 0.0, -self.gravity, 0.0
        guess = -max(abs(acceleration) / self.pixels_per_metre, 1e-6)
        return 0.0, unknown(guess, low=FREE_RANGE * guess, high=guess / FREE_RANGE), 0.0

    def camera(
        self,
        *,
        target: Any = (0.0, 0.0, 0.0),
        roll: float = 0.0,
        levelled: bool = True,
        faces: bool = True,
        lens_varies: bool = False,
    ) -> Camera:
        """Returns the camera; its pitch, roll and scale are known roughly.

        Args:
            target: Point in the plane of the motion in the middle of the picture [m].
            roll: Angle by which its top leans to the right in the axes of the scene [rad].
            levelled: Whether pitch and roll may be off; if not, errors of the direction of gravity take their place.
            faces: Whether the plane of the motion faces the camera, or only nearly so.
            lens_varies: Whether the field of view is known only as well as the focal length.
        """
        height = self.size[0] / self.pixels_per_metre
        sd = math.inf if self.scale is None else self.scale.relative_sd
        prior = Normal(height, sd * height) if math.isfinite(sd) else None
        extent: Any = unknown(height, height / FREE_RANGE, height * FREE_RANGE, prior=prior, nuisance=prior is not None)
        pitched: Any = unknown(0.0, -1.0, 1.0, prior=Normal(0.0, self.pitch), nuisance=True)
        rolled: Any = unknown(roll, prior=Normal(roll, self.tilt), nuisance=True)
        angles: dict[str, Any] = {"pitch": pitched, "roll": rolled} if levelled else {"roll": roll}
        if not faces:
            angles["yaw"] = unknown(0.0, prior=Normal(0.0, YAW), nuisance=True)
        return Camera(target=target, view_height=extent, fov=self._field_of_view(varies=lens_varies), **angles)

    def _field_of_view(self, *, varies: bool) -> Any:
        """Returns the vertical field of view [degrees], an unknown if it varies and the focal length is uncertain."""
        fov = self._degrees(self.focal.value)
        if not varies or self.focal.sd == 0:
            return fov
        radians = math.radians(fov)
        prior = LogNormal(fov, self.focal.relative_sd * math.sin(radians) / radians)
        ends = self._degrees(FOCAL_RANGE * self.focal.value), self._degrees(self.focal.value / FOCAL_RANGE)
        return unknown(fov, *ends, prior=prior, nuisance=True)

    def _degrees(self, focal: float) -> float:
        """Returns the vertical field of view of a focal length [degrees]."""
        return math.degrees(2 * math.atan(0.5 * self.size[0] / focal))
