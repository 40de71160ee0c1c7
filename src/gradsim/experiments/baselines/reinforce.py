"""PyBullet + REINFORCE (section H.1 and Table 5 of the paper).

The mass is the mean of a normal distribution. In each step some masses are drawn, simulated and rendered by PyBullet,
and the gradient of the expected reward is estimated from the logarithms of their probabilities. As in the paper, the
true video is made by PyBullet too. Its contact is PyBullet's: of the data set's contact parameters it has friction
only. The paper does not state an optimizer; this is gradient ascent with a fixed rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.experiments.baselines.problem import DENSITY, Problem
from gradsim.scene.errors import MissingExtra
from gradsim.scene.materials import Ground

SAMPLES, STEPS, NOISE, DECAY = 5, 125, 0.05, 0.925  # Table 5; the noise is in kg
RATE = 5e-3  # of the ascent [kg^2]: a step of about 0.1 kg at first
RATE_HZ, SKIPPED = 240, 8  # simulation steps a second, and steps from frame to frame
PIXELS = 64  # frame height and width
SMALLEST = 1e-3  # mass [kg]
RESTITUTION = 0.5
GRAVITY = -9.81  # [m/s^2]


def reinforce(problem: Problem) -> tuple[float, int]:
    """Returns the estimated mass [kg] and the number of simulations."""
    rng = np.random.default_rng([problem.seed, 3])
    with Bullet(problem) as bullet:
        target = bullet.video(problem.truth["mass"])
        mean, weight = problem.guess[DENSITY] * problem.volume, 1.0
        for _ in range(STEPS):
            masses = np.maximum(rng.normal(mean, NOISE, SAMPLES), SMALLEST)
            rewards = np.stack([-((bullet.video(mass) - target) ** 2).sum((1, 2, 3)) for mass in masses])
            spread = rewards.std()
            if spread == 0.0:  # all samples look the same
                break
            normalized = weight * (rewards - rewards.mean()) / spread
            slope = ((masses - mean) / NOISE**2)[:, None] * normalized  # of the logarithm of the probability
            mean = max(mean + RATE * float(slope.mean()), SMALLEST)
            weight *= DECAY
    return mean, 1 + SAMPLES * STEPS


@dataclass
class Bullet:
    """A PyBullet simulation of the scene of a problem."""

    problem: Problem

    def __enter__(self) -> Bullet:
        try:
            import pybullet
        except ImportError as error:
            raise MissingExtra("PyBullet + REINFORCE", "pybullet") from error
        self.bullet: Any = pybullet
        self.client = pybullet.connect(pybullet.DIRECT)
        self._build()
        return self

    def __exit__(self, *_: object) -> None:
        self.bullet.disconnect(self.client)

    def _build(self) -> None:
        bullet, client, body = self.bullet, self.client, self.problem.body
        scale = np.asarray(body.size) / np.ptp(body.mesh.vertices, axis=0)
        vertices = (body.mesh.vertices * scale).tolist()
        options: dict[str, Any] = {"vertices": vertices, "physicsClientId": client}
        hull = bullet.createCollisionShape(bullet.GEOM_MESH, **options)  # Bullet moves convex hulls only
        faces = body.mesh.faces.reshape(-1).tolist()
        shown = bullet.createVisualShape(bullet.GEOM_MESH, indices=faces, rgbaColor=[0.8, 0.5, 0.3, 1.0], **options)
        place = bullet.createCollisionShape(bullet.GEOM_PLANE, planeNormal=[0, 1, 0], physicsClientId=client)
        self.ground = bullet.createMultiBody(0.0, place, physicsClientId=client)
        self.body = bullet.createMultiBody(1.0, hull, shown, physicsClientId=client)
        bullet.setGravity(0.0, GRAVITY, 0.0, physicsClientId=client)
        bullet.setTimeStep(1.0 / RATE_HZ, physicsClientId=client)
        ground = self.problem.scene.ground
        assert isinstance(ground, Ground)
        friction = float(np.sqrt(float(np.asarray(ground.mu))))  # Bullet multiplies those of both bodies
        for number in (self.ground, self.body):
            bullet.changeDynamics(number, -1, lateralFriction=friction, restitution=RESTITUTION, physicsClientId=client)
        camera = self.problem.scene.camera
        assert camera is not None
        eye, target = (np.asarray(point).tolist() for point in (camera.eye, camera.target))
        self.view = bullet.computeViewMatrix(eye, target, [0, 1, 0])
        self.projection = bullet.computeProjectionMatrixFOV(float(np.asarray(camera.fov)), 1.0, 0.1, 50.0)

    def video(self, mass: float) -> np.ndarray:
        """Returns the video of the body with a mass [kg], [T, PIXELS, PIXELS, 3] in [0, 1]."""
        bullet, client, body = self.bullet, self.client, self.problem.body
        bullet.changeDynamics(self.body, -1, mass=mass, physicsClientId=client)
        position, rotation = (np.asarray(value).tolist() for value in (body.position, body.rotation))
        bullet.resetBasePositionAndOrientation(self.body, position, rotation, physicsClientId=client)
        velocity, spin = (np.asarray(value).tolist() for value in (body.velocity, body.angular_velocity))
        bullet.resetBaseVelocity(self.body, velocity, spin, physicsClientId=client)
        frames = []
        for frame in range(self.problem.sample.time.frames):
            frames.append(self._picture())
            for step in range(SKIPPED):
                if frame == 0 and step == 0:
                    self._push(position)
                bullet.stepSimulation(physicsClientId=client)
        return np.stack(frames)

    def _push(self, position: list[float]) -> None:
        """Applies the impulses of the scene as forces during one step."""
        for push in self.problem.body.pushes:
            force = (np.asarray(push.impulse) * RATE_HZ).tolist()
            self.bullet.applyExternalForce(
                self.body, -1, force, position, self.bullet.WORLD_FRAME, physicsClientId=self.client
            )

    def _picture(self) -> np.ndarray:
        _, _, pixels, _, _ = self.bullet.getCameraImage(
            PIXELS,
            PIXELS,
            self.view,
            self.projection,
            renderer=self.bullet.ER_TINY_RENDERER,
            shadow=0,
            physicsClientId=self.client,
        )
        return np.asarray(pixels, dtype=np.uint8).reshape(PIXELS, PIXELS, 4)[..., :3] / 255.0
