"""A two-link arm that known torques move: friction and inertia from telemetry, beside MuJoCo, and from video.

The motion comes from Lagrange's equations in absolute angles, integrated with tight tolerances by SciPy, and not from
either simulator. Dry friction is f rate / sqrt(rate^2 + slip^2). MuJoCo's is a constraint with the limit f, which is
another law below the slip rate. Its identification compares joint angles, so that it cannot start from a video.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.integrate import solve_ivp

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.fit.estimate import estimate
from gradsim.fit.observations.masks import Masks
from gradsim.fit.observations.states import States
from gradsim.fit.result import Fit
from gradsim.render.render import render
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.camera import Camera
from gradsim.scene.errors import MissingExtra
from gradsim.scene.joints import Revolute
from gradsim.scene.looks import Look
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import Signal
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.unknown import unknown
from gradsim.simulate.simulate import initial_trajectory

FRAMES, RATE, NOISE = 101, 50.0, 2e-3  # of the telemetry, [1/s], [rad]
VIDEO_FRAMES, SIDE, PIXEL_NOISE = 51, 64, 0.01
LENGTH, G, SLIP = 0.4, 9.81, 0.05  # [m], [m/s^2], [rad/s]
UPPER_MASS, UPPER_INERTIA = 1.5, 0.02  # [kg], about the centre [kg m^2]
START = (0.3, 0.2)  # absolute angles [rad]
UPPER, FORE = "arm.links.upper.joint.", "arm.links.fore."
TRUTH = {
    f"{UPPER}damping": 0.15,
    f"{UPPER}friction": 0.10,
    f"{FORE}joint.damping": 0.06,
    f"{FORE}joint.friction": 0.08,
    f"{FORE}mass": 0.9,
    f"{FORE}center[1]": -0.22,
    f"{FORE}inertia[2][2]": 0.015,
}
GUESS = dict(zip(TRUTH, (0.05, 0.03, 0.02, 0.02, 1.6, -0.15, 0.03), strict=True))
VIDEO_UNKNOWNS = (f"{UPPER}damping", f"{FORE}joint.damping", f"{FORE}mass")
GRADSIM, MUJOCO, PIXELS, MASKS = "gradsim, telemetry", "MuJoCo sysid, telemetry", "gradsim, pixels", "gradsim, masks"
ALLOWED = 0.05  # relative error from video


def torques(times: np.ndarray) -> np.ndarray:
    """Returns the motors' torques at some times [N m], [T, 2]."""
    return np.stack([3.0 * np.sin(3.1 * times) + 1.5 * np.sin(7.7 * times), 1.2 * np.cos(4.7 * times)], -1)


@functools.cache
def motion(frames: int, rate: float) -> np.ndarray:
    """Returns the angles of both joints [rad], [T, 2], by SciPy."""
    damping, friction, fore_damping, fore_friction, mass, center, inertia = TRUTH.values()
    arm = -center
    first = UPPER_INERTIA + UPPER_MASS * (LENGTH / 2) ** 2 + mass * LENGTH**2
    second, coupling = inertia + mass * arm**2, mass * LENGTH * arm
    knots = np.linspace(0.0, (frames - 1) / rate, frames)
    samples = torques(knots)

    def loss(rate: float, viscous: float, dry: float) -> float:
        return viscous * rate + dry * rate / math.sqrt(rate**2 + SLIP**2)

    def slope(t: float, state: np.ndarray) -> list[float]:
        a, b, w, u = state
        motors = [np.interp(t, knots, samples[:, k]) for k in range(2)]
        elbow = motors[1] - loss(u - w, fore_damping, fore_friction)
        shoulder = motors[0] - loss(w, damping, friction) - elbow
        c, s = math.cos(a - b), math.sin(a - b)
        matrix = np.array([[first, coupling * c], [coupling * c, second]])
        weight = (UPPER_MASS * LENGTH / 2 + mass * LENGTH) * G * math.sin(a), mass * arm * G * math.sin(b)
        force = [shoulder - coupling * s * u * u - weight[0], elbow + coupling * s * w * w - weight[1]]
        return [w, u, *np.linalg.solve(matrix, force)]

    start = (*START, 0.0, 0.0)
    found = solve_ivp(slope, (0.0, knots[-1]), start, t_eval=knots, method="DOP853", rtol=1e-9, atol=1e-11)
    return np.stack([found.y[0], found.y[1] - found.y[0]], -1)


@functools.cache
def telemetry() -> np.ndarray:
    """Returns the measured angles [rad], [T, 2]; the elbow's encoder fails for a tenth of the time."""
    random = np.random.default_rng(0)
    angles = motion(FRAMES, RATE) + NOISE * random.standard_normal((FRAMES, 2))
    angles[40:50, 1] = np.nan
    return angles


def arm(values: dict[str, Any], frames: int, rate: float, angles: Any = None) -> Scene:
    """Returns the arm with values by path."""
    bar = box((0.06, LENGTH, 0.06))
    mesh = TriMesh(bar.vertices - (0.0, LENGTH / 2, 0.0), bar.faces)
    motors = torques(np.arange(frames) / rate)
    start = (START[0], START[1] - START[0]) if angles is None else angles

    def hinge(path: str, k: int) -> Revolute:
        given = {name: values[f"{path}{name}"] for name in ("damping", "friction")}
        return Revolute(angle=start[k], slip=SLIP, torque=Signal(motors[:, k]), **given)

    def inertia(about_z: Any) -> Any:
        return [[0.02, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, about_z]]

    upper = {"mass": UPPER_MASS, "center": (0.0, -LENGTH / 2, 0.0), "inertia": inertia(UPPER_INERTIA)}
    fore = {"mass": values[f"{FORE}mass"], "center": (0.0, values[f"{FORE}center[1]"], 0.0)}
    fore["inertia"] = inertia(values[f"{FORE}inertia[2][2]"])
    looks = [Look(color=color) for color in ((0.8, 0.3, 0.2), (0.2, 0.4, 0.8))]
    links = {
        "upper": Link(hinge(UPPER, 0), mesh=mesh, look=looks[0], **upper),
        "fore": Link(hinge(f"{FORE}joint.", 1), "upper", (0.0, -LENGTH, 0.0), mesh=mesh, look=looks[1], **fore),
    }
    camera = Camera(eye=(0.0, -0.3, 2.2), target=(0.0, -0.3, 0.0), fov=40)
    return Scene([Articulated("arm", links)], camera=camera, background=(0.0, 0.0, 0.0))


def guesses(paths: Sequence[str]) -> dict[str, Any]:
    """Returns unknowns for some paths, and true values for all others."""
    found: dict[str, Any] = dict(TRUTH)
    for path in paths:
        low, high = sorted((GUESS[path] / 10, GUESS[path] * 10))
        found[path] = unknown(GUESS[path], low=low, high=high)
    return found


def video() -> torch.Tensor:
    """Returns images with noise [T, H, W, 4] of the same motion; the last channel is the silhouette."""
    angles = torch.as_tensor(motion(VIDEO_FRAMES, RATE))
    scene = arm(TRUTH, VIDEO_FRAMES, RATE, angles.unbind(-1))  # one world per frame
    images = render(scene, initial_trajectory(scene), (SIDE, SIDE), alpha=True)[:, 0]
    noise = PIXEL_NOISE * torch.randn(images.shape, generator=torch.Generator().manual_seed(0), dtype=images.dtype)
    return (images + noise).clamp(0.0, 1.0)


def _row(method: str, errors: dict[str, float], seconds: float, **more: Any) -> Row:
    texts = [f"{100 * error:.2g}" for error in errors.values()]
    return {"method": method, "errors": ", ".join(texts), "error": max(errors.values()), "seconds": seconds, **more}


def _fit_row(method: str, fit: Fit, paths: Sequence[str]) -> Row:
    values = {path: float(fit.values[path]) for path in paths}
    errors = {path: abs(values[path] / TRUTH[path] - 1.0) for path in paths}
    inside = [float(fit.intervals[path][0]) <= TRUTH[path] <= float(fit.intervals[path][1]) for path in paths]
    return _row(method, errors, fit.seconds, inside=f"{sum(inside)}/{len(inside)}", status=fit.status)


def from_telemetry(progress: Progress) -> Row:
    """Estimates all parameters from the joint angles."""
    measured = States({"arm.angles": torch.as_tensor(telemetry())}, noise=NOISE)
    fit = estimate(arm(guesses(tuple(TRUTH)), FRAMES, RATE), measured, fps=RATE, substeps=8)
    return _fit_row(GRADSIM, fit, tuple(TRUTH))


def from_video(method: str, progress: Progress) -> Row:
    """Estimates damping and the mass of the forearm from images or silhouettes."""
    images = video()
    observed: Any = images[..., :3] if method == PIXELS else Masks(images[..., 3])
    fit = estimate(arm(guesses(VIDEO_UNKNOWNS), VIDEO_FRAMES, RATE), observed, fps=RATE, substeps=8)
    return _fit_row(method, fit, VIDEO_UNKNOWNS)


def from_mujoco(progress: Progress) -> Row:
    """Estimates all parameters from the joint angles by MuJoCo's identification."""
    try:
        import mujoco
        from mujoco import sysid

        optimize, parameter = sysid.optimize, sysid.Parameter
    except (ImportError, AttributeError) as error:
        raise MissingExtra("MuJoCo's system identification", "paper") from error
    measured, rollout = telemetry(), _MuJoCoArm(mujoco)
    bounds = {path: sorted((guess / 10, guess * 10)) for path, guess in GUESS.items()}
    own = sysid.ParameterDict({path: parameter(path, guess, *bounds[path]) for path, guess in GUESS.items()})

    def residual(x: np.ndarray, _: Any, **__: Any) -> tuple[list[np.ndarray], list[Any], list[Any]]:
        points = np.atleast_2d(np.asarray(x).T).reshape(-1, len(GUESS)) if np.ndim(x) > 1 else [np.asarray(x).ravel()]
        return [np.nan_to_num(rollout(point) - measured).ravel() / NOISE for point in points], [], []

    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every iteration
        found, _ = optimize(own, residual, optimizer="scipy", verbose=False)
    seconds = time.perf_counter() - begin
    values = dict(zip(GUESS, np.ravel(found.as_vector()), strict=True))
    return _row(MUJOCO, {path: abs(values[path] / TRUTH[path] - 1.0) for path in TRUTH}, seconds)


class _MuJoCoArm:
    """The arm in MuJoCo, by its rollouts."""

    steps = 8  # per frame

    def __init__(self, mujoco: Any):
        self.mujoco = mujoco
        spec = mujoco.MjSpec()
        spec.option.timestep, spec.option.gravity = 1.0 / (RATE * self.steps), (0.0, -G, 0.0)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        body = spec.worldbody
        for k, name in enumerate(("upper", "fore")):
            body = body.add_body(name=name, pos=(0.0, -LENGTH if k else 0.0, 0.0))
            body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0.0, 0.0, 1.0), frictionloss=0.1)
            body.explicitinertial, body.mass, body.inertia = True, UPPER_MASS, (0.02, 1e-3, UPPER_INERTIA)
            body.ipos = (0.0, -LENGTH / 2, 0.0)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.torques = torques(np.arange(FRAMES) / RATE)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Returns the angles of a rollout [rad], [T, 2]."""
        model, data = self.model, self.data
        model.dof_damping[:] = values[0], values[2]
        model.dof_frictionloss[:] = values[1], values[3]
        model.body_mass[2], model.body_ipos[2, 1], model.body_inertia[2, 2] = values[4:]
        self.mujoco.mj_setConst(model, data)
        self.mujoco.mj_resetData(model, data)
        data.qpos[:] = START[0], START[1] - START[0]
        found = [data.qpos.copy()]
        for before, after in zip(self.torques[:-1], self.torques[1:], strict=True):
            for step in range(self.steps):
                data.qfrc_applied[:] = before + (after - before) * (step + 0.5) / self.steps
                self.mujoco.mj_step(model, data)
            found.append(data.qpos.copy())
        return np.array(found)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    found = {row["method"]: row for row in rows}
    claims = [
        Claim(f"relative error, {name}", found[name]["error"], at_most=ALLOWED)
        for name in (PIXELS, MASKS)
        if name in found
    ]
    if GRADSIM in found and MUJOCO in found:
        ratio = found[GRADSIM]["error"] / found[MUJOCO]["error"]
        claims.append(Claim("largest error from telemetry over that of MuJoCo's identification", ratio, at_most=1.0))
    return claims


def experiment() -> Experiment:
    """Returns the table of all methods."""
    columns = (
        Column("method", "", 26),
        Column("errors", "", 44, "relative errors [%]"),
        Column("error", ".1e", 9, "largest"),
        Column("inside", "", 7),
        Column("status", "", 16),
        Column("seconds", ".1f", 8),
    )
    cases = (
        Case(GRADSIM, from_telemetry),
        Case(MUJOCO, from_mujoco),
        Case(PIXELS, lambda progress: from_video(PIXELS, progress)),
        Case(MASKS, lambda progress: from_video(MASKS, progress)),
    )
    title = (
        "A two-link arm: damping, dry friction, mass, centre and inertia from telemetry; damping and mass from video"
    )
    return Experiment("arm", title, columns, cases, _claims)
