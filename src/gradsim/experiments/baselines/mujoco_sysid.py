"""MuJoCo's system identification: the mass from the 3D states of the flight before the first contact.

MuJoCo's contact is another than ours, so it does not apply to the frames after that. The inertia is proportional to
the mass. The impulse at the start changes the initial velocities, which depend on the mass.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import torch

from gradsim.experiments.baselines.problem import DENSITY, Problem
from gradsim.scene.errors import InvalidInput, MissingExtra
from gradsim.scene.materials import Ground
from gradsim.scene.rotation import rotate

STEPS = 32  # from frame to frame
LEAST = 4  # frames of a flight that determines the mass


def mujoco_sysid(problem: Problem) -> tuple[float, int]:
    """Returns the estimated mass [kg] and the number of simulations."""
    try:
        from mujoco import sysid

        optimize, parameter = sysid.optimize, sysid.Parameter
    except (ImportError, AttributeError) as error:
        raise MissingExtra("MuJoCo's system identification", "paper") from error
    flight = Flight(problem)
    bounds = [bound * problem.volume for bound in problem.bounds[DENSITY]]
    guess = problem.guess[DENSITY] * problem.volume
    parameters = sysid.ParameterDict({"mass": parameter("mass", guess, bounds[0], bounds[1])})

    def residual(x: np.ndarray, _: Any, **__: Any) -> tuple[list[np.ndarray], list[Any], list[Any]]:
        return [flight.difference(float(np.asarray(x).reshape(-1)[0]))], [], []

    with contextlib.redirect_stdout(io.StringIO()):  # it prints every iteration
        found, _ = optimize(parameters, residual, optimizer="scipy", verbose=False)
    return float(found.as_vector()[0]), flight.simulations


class Flight:
    """The flight of a body in MuJoCo, from its start to the last frame before the first contact."""

    def __init__(self, problem: Problem):
        import mujoco

        self.mujoco = mujoco
        self.body, states = problem.body, problem.trajectory
        unit = self.body.scaled_solid(torch.float64, torch.device("cpu"))
        self.volume, self.center = float(unit.mass), unit.center.numpy()
        self.inertia = unit.inertia.numpy() / self.volume  # per mass [m^2]
        self.rate = problem.sample.time.fps
        self.frames = _frames_in_flight(problem)
        if self.frames < LEAST:
            raise InvalidInput("object", problem.sample.object, f"flies for {self.frames} frames; needs {LEAST}")
        self.positions = states["body.position"][: self.frames].numpy()
        self.simulations = 0

    def difference(self, mass: float) -> np.ndarray:
        """Returns the difference to the observed positions [m] of a body of a mass [kg], [3 T]."""
        return (self._positions(mass) - self.positions).reshape(-1)

    def _positions(self, mass: float) -> np.ndarray:
        """Returns the positions of the body's origin at the frames [m], [T, 3]."""
        self.simulations += 1
        model = self._model(mass)
        data = self.mujoco.MjData(model)
        data.qpos[:3] = np.asarray(self.body.position)
        data.qpos[3:] = np.roll(np.asarray(self.body.rotation), 1)
        velocity, spin = self._start(mass)
        turned = torch.as_tensor(np.asarray(self.body.rotation), dtype=torch.float64)
        data.qvel[:3] = velocity - np.cross(spin, rotate(turned, torch.as_tensor(self.center)).numpy())
        data.qvel[3:] = rotate(turned, torch.as_tensor(spin), back=True).numpy()
        found = [data.qpos[:3].copy()]
        for _ in range(self.frames - 1):
            self.mujoco.mj_step(model, data, STEPS)
            found.append(data.qpos[:3].copy())
        return np.array(found)

    def _start(self, mass: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the velocity of the centre of mass and the spin after the impulse, in world axes."""
        turned = torch.as_tensor(np.asarray(self.body.rotation), dtype=torch.float64)
        velocity, spin = (np.array(v, dtype=float) for v in (self.body.velocity, self.body.angular_velocity))
        for push in self.body.pushes:
            impulse = np.asarray(push.impulse, dtype=float)
            velocity += impulse / mass
            arm = rotate(turned, torch.as_tensor(np.asarray(push.point) - self.center)).numpy()
            local = rotate(turned, torch.as_tensor(np.cross(arm, impulse)), back=True).numpy()
            change = np.linalg.solve(mass * self.inertia, local)
            spin += rotate(turned, torch.as_tensor(change)).numpy()
        return velocity, spin

    def _model(self, mass: float) -> Any:
        spec = self.mujoco.MjSpec()
        spec.option.timestep = 1.0 / (STEPS * self.rate)
        spec.option.integrator = self.mujoco.mjtIntegrator.mjINT_RK4
        spec.option.gravity = (0.0, -9.81, 0.0)
        body = spec.worldbody.add_body(name="body")
        body.add_freejoint()
        body.explicitinertial = True
        body.mass, body.ipos = mass, self.center
        inertia = mass * self.inertia
        body.fullinertia = [inertia[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
        return spec.compile()


def _frames_in_flight(problem: Problem) -> int:
    """Returns the number of frames before a vertex is first below the ground's surface."""
    (ground,) = problem.scene.obstacles.values()
    assert isinstance(ground, Ground)
    body = problem.body
    scale = np.asarray(body.size) / np.ptp(body.mesh.vertices, axis=0)
    points = torch.tensor(body.mesh.vertices * scale)
    states = problem.trajectory
    heights = rotate(states["body.rotation"][:, None], points)[..., 1] + states["body.position"][:, None, 1]
    below = (heights.amin(-1) <= 0.0).nonzero()
    return int(below[0]) if len(below) else len(heights)
