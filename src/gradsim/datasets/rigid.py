"""The paper's rigid-body data set (section G): one of fourteen objects is thrown to the ground and pushed at the start.

The paper's ranges of density and contact parameters are used as they stand. Positions, scale factors and velocities,
which the paper draws "from a cube of side-length 13 m centered on the camera", would be out of view in most videos;
docs/dataset.md has the ranges used instead, and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.datasets.objects import (
    OBJECTS,
    extent_below_origin,
    mesh,
    object_volume,
    patched_look,
    random_rotation,
    scaled,
    volume,
)
from gradsim.datasets.sample import Sample, draw_truth, draw_unknowns, generators
from gradsim.scene.camera import Camera
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time

FRAMES, FPS, SUBSTEPS = 60, 30.0, 256
RANGES = {  # of true values and of guesses
    "body.density": (2.0, 12.0),  # [kg/m^3]
    "ground.ke": (1.0, 500.0),  # [N/m]
    "ground.kd": (1.0, 500.0),  # [N s/m]
    "ground.kf": (1.0, 500.0),  # [N s/m]
    "ground.mu": (0.2, 1.0),
}
SCALES = (0.7, 1.3)  # of an object along each axis
POSITIONS = ((-1.7, 0.3, -0.6), (-0.9, 1.2, 0.6))  # [m]; the height is that of the lowest point
VELOCITIES = ((0.2, -1.0, -0.3), (0.9, 1.0, 0.3))  # [m/s]
SPIN = 3.0  # largest component of the angular velocity [rad/s]
IMPULSES = ((2.0, -1.6, -1.6), (5.0, 1.6, 1.6))  # per volume of the object [N s/m^3]
REACH = 0.2  # largest coordinate of the point that is pushed [m]
DELTA = 0.01  # penetration depth over which contact sets in [m]
CAMERA = Camera(eye=(0.4, 2.8, 9.0), target=(0.4, 0.45, 0.0), fov=36.0)
BACKGROUND = (0.05, 0.08, 0.12)


def _drawn(rng: np.random.Generator) -> tuple[str, dict[str, Any], np.ndarray]:
    """Returns object, true values and scale factors [3]: what a generator draws first."""
    return OBJECTS[rng.integers(len(OBJECTS))], draw_truth(rng, RANGES), rng.uniform(*SCALES, 3)


def true_values(seed: int, number: int) -> dict[str, float]:
    """Returns the true values of a video by path, and the volume of its object as "volume" [m^3], without its scene."""
    name, truth, factors = _drawn(generators(seed, number)[0])
    return truth | {"volume": object_volume(name) * float(factors.prod())}


def sample(seed: int, number: int) -> Sample:
    """Returns a video of the data set."""
    rng, guesses = generators(seed, number)
    name, truth, factors = _drawn(rng)
    unknowns = draw_unknowns(guesses, RANGES)
    shape = mesh(name)
    rotation = random_rotation(rng)
    position = rng.uniform(*POSITIONS)
    position[1] += extent_below_origin(scaled(shape, factors), rotation)
    impulse = volume(shape) * factors.prod() * rng.uniform(*IMPULSES)
    body = Rigid(
        "body",
        shape,
        size=np.ptp(shape.vertices, axis=0) * factors,
        density=unknowns["body.density"],
        position=position,
        rotation=rotation,
        velocity=rng.uniform(*VELOCITIES),
        angular_velocity=rng.uniform(-SPIN, SPIN, 3),
        pushes=[Push(impulse=impulse, point=rng.uniform(-REACH, REACH, 3))],
        look=patched_look(shape, rng),
    )
    contact: dict[str, Any] = {key: unknowns[f"ground.{key}"] for key in ("ke", "kd", "kf", "mu")}
    ground = Ground(**contact, delta=DELTA)
    scene = Scene([body], ground=ground, camera=CAMERA, background=BACKGROUND)
    return Sample(name, scene, truth, Time(FRAMES, FPS, SUBSTEPS))
