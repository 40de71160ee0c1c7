"""Hypothesis strategy for calls of public functions and classes with odd arguments."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from tests.robustness.strategies import SHORT, options

import gradsim as gs

Call = tuple[Callable[..., Any], dict[str, Any]]  # a function with valid keyword arguments


def _ball_scene() -> gs.Scene:
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.2, 0), 1.0, position=(0.0, 1.0, 0.0))
    return gs.Scene([ball], camera=gs.Camera(eye=(0.0, 1.0, 3.0), target=(0.0, 1.0, 0.0)))


def _simulated(**arguments: Any) -> Any:
    return tuple(gs.simulate(_ball_scene(), **arguments).states.values())


def _rendered(**arguments: Any) -> Any:
    scene = _ball_scene()
    found = gs.render(scene, gs.simulate(scene, **SHORT), **arguments)
    if isinstance(found, tuple):  # the depth is infinite where there is nothing
        return found[0], torch.where(torch.isinf(found[1]), 0.0, found[1])
    return found


def _thrown(speed: Any) -> gs.Scene:
    ball = gs.Ball("ball", radius=0.2, mass=1.0, position=(0.0, 1.0, 0.0), velocity=(speed, 0.0, 0.0))
    return gs.Scene([ball], camera=gs.Camera(eye=(0.0, 1.0, 3.0), target=(0.0, 1.0, 0.0)))


TRACKS = {
    "points": [gs.Center("ball")],
    "positions": torch.tensor([[[0.1 * k, 1.0 - k * k / 20, 0.0]] for k in range(3)]),
}


def _estimated(**arguments: Any) -> Any:
    fit = gs.estimate(_thrown(gs.unknown(0.5, low=-2.0, high=2.0)), gs.Tracks(**TRACKS, noise=0.01), **arguments)
    return tuple(torch.as_tensor(value) for value in fit.values.values())


def _minimized(**arguments: Any) -> Any:
    def loss(scene: gs.Scene) -> torch.Tensor:
        return (gs.simulate(scene, frames=2, fps=10, substeps=4)["ball"].position[..., -1, 0] - 0.1).square()

    found = gs.minimize(**{"loss": loss, "scene": _thrown(gs.unknown(0.5, low=-2.0, high=2.0)), **arguments})
    return tuple(torch.as_tensor(value) for value in found.values.values())


def _planned(**arguments: Any) -> Any:
    scene = _thrown(gs.unknown(0.5, low=-2.0, high=2.0))
    plan = gs.control(scene, gs.GoalState({"ball.position": (0.2, 0.9, 0.0)}), **arguments)
    return plan.history[-1].loss


def _expected(**arguments: Any) -> None:
    gs.identifiability(_thrown(gs.unknown(0.5, low=-2.0, high=2.0)), **arguments)


def _rolled(**arguments: Any) -> Any:
    return gs.stable_dt(_thrown(1.0), **arguments)


def _continued(**arguments: Any) -> Any:
    return tuple(gs.simulate(_thrown(1.0), **SHORT, start=arguments["start"]).states.values())


def _sampled(times: Any) -> Any:
    return gs.simulate(_thrown(1.0), **SHORT).sample(times).time


def _valued(values: Any) -> Any:
    return tuple(gs.simulate(_thrown(gs.unknown(0.5)).with_values(values), **SHORT).states.values())


def _saved_video(suffix: Any, **arguments: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gs.save_video(Path(folder) / f"video{suffix}", **arguments)


def _saved_motion(suffix: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gs.save_trajectory(Path(folder) / f"motion{suffix}", gs.simulate(_thrown(1.0), **SHORT))


STAGES = [(gs.Moments(), gs.GaussNewton(iterations=1))]
FRAMES = torch.full((3, 16, 16, 3), 0.5, dtype=torch.float64)


def _fitting() -> list[Call]:
    """Estimates, searches and observations."""
    return [
        (_estimated, {"fps": 10.0, "substeps": 4, "corrections": 0, "starts": 1, "seed": 0, "noise": None}),
        (_estimated, {"fps": 10.0, "substeps": 4, "corrections": 0, "roughly": (), "offset": None, "exposure": 0.0}),
        (_estimated, {"fps": 10.0, "frames": None, "mask": None, "robust": None, "optimizer": gs.GaussNewton()}),
        (_minimized, {"optimizer": gs.LBFGS(iterations=2), "starts": 1, "seed": 0}),
        (_planned, {"frames": 3, "fps": 10.0, "substeps": 4, "effort": 0.0, "starts": 1, "seed": 0, "stages": STAGES}),
        (_expected, {"frames": 3, "fps": 10.0, "size": (8, 8), "noise": 0.01, "samples": 1, "seed": 0, "substeps": 4}),
        (_rolled, {"integrator": gs.Verlet()}),
        (_continued, {"start": None}),
        (_sampled, {"times": [0.0, 0.01]}),
        (_valued, {"values": {"ball.velocity[0]": 1.0}}),
        (gs.Tracks, {**TRACKS, "noise": 0.01, "robust": None, "weights": None}),
        (gs.Tracks, {"points": {"ball": [0, 1]}, "pixels": torch.ones(3, 2, 2), "size": (8, 8), "noise": 1.0}),
        (gs.States, {"values": {"ball.position": torch.ones(3, 3)}, "noise": 0.1, "weights": None, "robust": None}),
        (gs.Pixels, {"video": FRAMES, "mask": None, "channels": None, "brightness": False, "noise": 0.01}),
        (gs.Masks, {"masks": FRAMES[..., 0], "mask": None, "noise": 0.1}),
        (
            gs.Trial,
            {"scene": _thrown(1.0), "observations": gs.Tracks(**TRACKS), "fps": 10.0, "times": None, "offset": 0.0},
        ),
        (gs.mse, {"video": FRAMES, "observed": FRAMES, "mask": None}),
        (
            _saved_video,
            {"suffix": ".npz", "video": FRAMES, "fps": 10.0, "quality": None, "codec": None, "linear": False},
        ),
        (_saved_video, {"suffix": ".mp4", "video": FRAMES, "fps": 10.0, "quality": None, "codec": None}),
        (_saved_motion, {"suffix": ".csv"}),
    ]


def _described() -> list[Call]:
    """Parts of scenes."""
    return [
        (gs.Camera, {"eye": (0, 1, 3), "target": (0, 0, 0), "fov": 45.0, "up": (0, 1, 0), "near": 0.01}),
        (gs.PointLight, {"position": (0, 3, 0), "color": (1, 1, 1)}),
        (gs.DirectionalLight, {"direction": (0, -1, 0), "color": (1, 1, 1)}),
        (gs.LogNormal, {"median": 1.0, "sd": 0.1}),
        (gs.Signal, {"values": [0.0, 1.0, 2.0]}),
        (gs.per_element, {"values": [1.0, 2.0]}),
        (gs.Region, {"low": (0.0, None, None), "high": (None, None, 1.0)}),
        (gs.Drag, {"linear": 0.1, "quadratic": 0.1}),
        (gs.Rayleigh, {"mass": 0.1, "stiffness": 0.1, "ratio": None, "frequency": None, "stiffness_part": 0.0}),
        (gs.Fibres, {"stiffness": 1e3, "direction": (1, 0, 0)}),
        (gs.MooneyRivlin, {"c10": 1e3, "c01": 1e2, "bulk": 1e4, "damping": 0.0}),
        (gs.NeoHookean.from_young, {"young": 1e4, "poisson": 0.3, "damping": 0.0}),
        (gs.Bending, {"stiffness": 0.1, "damping": 0.0}),
        (gs.StaticBox, {"size": (1, 1, 1), "position": (0, 0, 0), "rotation": (0, 0, 0, 1), "ke": 1e3}),
        (gs.StaticSphere, {"radius": 1.0, "position": (0, 0, 0), "surface_velocity": (0, 0, 0), "motion": None}),
        (gs.Revolute, {"axis": (0, 0, 1), "angle": 0.1, "low": -1.0, "high": 1.0, "torque": 0.0}),
        (gs.Universal, {"axis": (1, 0, 0), "second_axis": (0, 1, 0), "angles": (0, 0)}),
        (gs.Tether, {"name": "rope", "body": "a", "nodes": [0], "rigid": "b", "points": (0, 0, 0), "stiffness": 1.0}),
        (gs.ImplicitMidpoint, {"tolerance": 1e-9, "max_iterations": 60}),
        (gs.SoftRas, {"sigma": 1e-5, "gamma": 1e-4}),
        (gs.GaussNewton, {"iterations": 3}),
        (gs.Huber, {"threshold": 0.1}),
        (gs.Time, {"frames": 3, "fps": 10.0, "substeps": 4, "integrator": gs.Verlet()}),
    ]


def _shaped() -> list[Call]:
    """Rollouts, pictures, meshes and materials."""
    return [
        (_simulated, {"frames": 3, "fps": 20.0, "substeps": 4, "memory": None, "dtype": None, "start": None}),
        (_rendered, {"size": (8, 8), "frames": None, "alpha": False, "depth": False, "renderer": gs.Exact()}),
        (gs.unknown, {"guess": 1.0, "low": 0.5, "high": 2.0, "shape": None, "prior": None}),
        (gs.meshes.box, {"size": 0.3}),
        (gs.meshes.icosphere, {"radius": 0.3, "subdivisions": 1}),
        (gs.meshes.tet_box, {"size": 0.3, "cells": 1}),
        (gs.meshes.grid, {"size": 0.3, "cells": 2}),
        (gs.meshes.cylinder, {"radius": 0.1, "height": 0.3}),
        (gs.meshes.torus, {"major": 0.3, "minor": 0.1}),
        (gs.TriMesh, {"vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]], "faces": [[0, 1, 2]]}),
        (gs.TetMesh, {"vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "tets": [[0, 1, 2, 3]]}),
        (gs.Contact, {"ke": 1e3, "kd": 1.0, "kf": 1.0, "mu": 0.5, "delta": 0.01}),
        (gs.Push, {"force": (1, 0, 0), "point": None, "start": 0.0, "end": 0.1}),
        (gs.NeoHookean, {"mu": 1e4, "lam": 1e4, "damping": 1.0}),
        (gs.Normal, {"mean": 1.0, "sd": 0.1}),
        (gs.Look, {"color": (1, 0, 0), "specular": 0.1, "shininess": 20.0, "smooth": 40.0, "texture": None}),
        (gs.Checker, {"colors": ((1, 1, 1), (0, 0, 0)), "tile": 1.0, "size": 10.0}),
        (_simulated, {"frames": 3, "fps": 20.0, "substeps": 4, "integrator": gs.Verlet()}),
        (gs.Sticking, {"stiffness": 0.4, "damping": 0.2}),
        (gs.SelfContact, {"ke": 1e3, "kd": 0.1, "mu": 0.3, "delta": None, "radius": None, "within": True}),
        (gs.Motion, {"displacement": (0, 0, 0), "rotation": None, "center": None}),
    ]


def calls() -> st.SearchStrategy[Call]:
    """Public functions with keyword arguments."""
    valid = [*_shaped(), *_described(), *_fitting()]
    return st.sampled_from(valid).flatmap(lambda call: st.tuples(st.just(call[0]), options(call[1])))
