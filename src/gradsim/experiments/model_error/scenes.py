"""The scenes of the experiment: a thrown box, a soft block that lands, a sheet that flies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.datasets.objects import random_look
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.lights import AmbientLight, DirectionalLight
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Bending, Ground, Membrane, NeoHookean
from gradsim.scene.meshes import grid, tet_box
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.unknown import unknown

FPS = 30.0
GUESS_ERROR = 0.15  # relative, of the guess from which a search starts
LIGHTS = (AmbientLight(0.4), DirectionalLight((-0.45, -1.0, -0.7), 0.6))
BACKGROUND = (0.82, 0.86, 0.92)

Values = Mapping[str, Any]
Builder = Callable[[np.random.Generator, Values], Scene]


@dataclass(frozen=True)
class Family:
    """A kind of scene with unknowns."""

    name: str
    build: Builder  # a scene from a random generator and the values by path
    truth: Mapping[str, tuple[float, float]]  # range of the true values by path
    bounds: Mapping[str, tuple[float, float]]
    frames: int
    substeps: int  # of the recorded motion, per frame: far more than a fit needs

    def draw_truth(self, seed: int) -> dict[str, float]:
        """Returns true values, drawn from their ranges."""
        rng = np.random.default_rng([seed, 1])
        return {path: float(rng.uniform(*ends)) for path, ends in self.truth.items()}

    def true_scene(self, seed: int) -> Scene:
        """Returns the scene with its true values."""
        return self.build(np.random.default_rng([seed, 0]), self.draw_truth(seed))

    def guessed_scene(self, seed: int) -> Scene:
        """Returns the same scene with unknowns, whose guesses are off."""
        rng = np.random.default_rng([seed, 2])
        guesses = {
            path: unknown(value * (1 + GUESS_ERROR * rng.choice((-1, 1))), *self.bounds[path])
            for path, value in self.draw_truth(seed).items()
        }
        return self.build(np.random.default_rng([seed, 0]), guesses)


def _camera(rng: np.random.Generator, eye: tuple[float, ...], target: tuple[float, ...]) -> Camera:
    return Camera(eye=np.array(eye) + rng.uniform(-0.1, 0.1, 3), target=target, fov=40.0)


def _thrown_box(rng: np.random.Generator, values: Values) -> Scene:
    shape = box((0.5, 0.35, 0.4))
    body = Rigid(
        "box",
        shape,
        mass=values["box.mass"],
        position=np.array((-0.7, 0.55, 0.0)) + rng.uniform(-0.05, 0.05, 3),
        rotation=_small_rotation(rng, (0.1, 0.4, 0.24)),
        velocity=np.array((1.4, -0.6, 0.15)) + rng.uniform(-0.1, 0.1, 3),
        angular_velocity=np.array((0.5, 1.0, -2.0)) + rng.uniform(-0.3, 0.3, 3),
        pushes=[
            Push(impulse=(1.2, 0.6, -0.4), point=(0.05, 0.1, 0.0), start=0.15),
            Push(force=(-2.0, 0.0, 1.0), start=0.7, end=0.95),
        ],
        look=random_look(shape, rng),
    )
    ground = Ground(ke=4000.0, kd=values["ground.kd"], kf=60.0, mu=values["ground.mu"], delta=0.01, look=Checker())
    camera = _camera(rng, (0.3, 1.5, 3.0), (0.1, 0.15, 0.0))
    return Scene([body], ground=ground, camera=camera, lights=LIGHTS, background=BACKGROUND)


def _landing_block(rng: np.random.Generator, values: Values) -> Scene:
    mesh = tet_box((0.5, 0.35, 0.35), (4, 3, 3))
    body = Soft(
        "block",
        mesh,
        density=20.0,
        material=NeoHookean(mu=values["block.material.mu"], lam=800.0, damping=values["block.material.damping"]),
        position=np.array((-0.3, 0.4, 0.0)) + rng.uniform(-0.04, 0.04, 3),
        rotation=_small_rotation(rng, (0.05, 0.3, 0.35)),
        velocity=np.array((1.0, -1.0, 0.1)) + rng.uniform(-0.1, 0.1, 3),
        look=Look(color=rng.uniform(0.2, 0.9, 3), smooth=0.0),
    )
    ground = Ground(ke=60.0, kd=0.2, kf=0.3, mu=values["ground.mu"], delta=0.01, look=Checker())
    camera = _camera(rng, (0.2, 1.2, 2.4), (0.0, 0.2, 0.0))
    return Scene([body], ground=ground, camera=camera, lights=LIGHTS, background=BACKGROUND)


def _flying_sheet(rng: np.random.Generator, values: Values) -> Scene:
    mesh = grid(0.8, 6)
    body = Cloth(
        "sheet",
        mesh,
        density=values["sheet.density"],
        material=Membrane(mu=50.0, lam=50.0, damping=0.05),
        bending=Bending(stiffness=5e-4, damping=1e-5),
        drag=1.0,
        lift=1.0,
        position=np.array((-0.7, 0.5, 0.0)) + rng.uniform(-0.05, 0.05, 3),
        rotation=_small_rotation(rng, (0.7, 0.0, 0.6)),
        velocity=(values["sheet.velocity[0]"], values["sheet.velocity[1]"], 0.5),
        look=random_look(mesh, rng),
    )
    camera = _camera(rng, (0.1, 0.9, 2.6), (0.1, 0.65, 0.0))
    return Scene([body], camera=camera, lights=LIGHTS, background=BACKGROUND)


def _small_rotation(rng: np.random.Generator, vector: tuple[float, ...]) -> np.ndarray:
    """Returns the quaternion of a rotation vector [rad], slightly varied."""
    half = 0.5 * (np.array(vector) + rng.uniform(-0.1, 0.1, 3))
    angle = float(np.linalg.norm(half))
    return np.append(half * np.sin(angle) / angle, np.cos(angle))


RIGID = Family(
    "rigid",
    _thrown_box,
    {"box.mass": (2.0, 5.0), "ground.mu": (0.25, 0.5), "ground.kd": (5.0, 20.0)},
    {"box.mass": (0.5, 20.0), "ground.mu": (0.05, 1.5), "ground.kd": (1.0, 100.0)},
    36,
    512,
)
SOFT = Family(
    "soft",
    _landing_block,
    {"block.material.mu": (400.0, 900.0), "block.material.damping": (1.0, 4.0), "ground.mu": (0.25, 0.5)},
    {"block.material.mu": (100.0, 4000.0), "block.material.damping": (0.2, 20.0), "ground.mu": (0.05, 1.5)},
    24,
    512,
)
CLOTH = Family(
    "cloth",
    _flying_sheet,
    {"sheet.density": (0.1, 0.25), "sheet.velocity[0]": (1.5, 2.5), "sheet.velocity[1]": (2.5, 3.5)},
    {"sheet.density": (0.02, 1.0), "sheet.velocity[0]": (-6.0, 6.0), "sheet.velocity[1]": (-6.0, 6.0)},
    24,
    512,
)
FAMILIES = (RIGID, SOFT, CLOTH)
