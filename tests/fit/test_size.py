"""Estimates of the dimensions of rigid bodies from videos that were recorded with other time steps."""

import numpy as np
import pytest
import torch

import gradsim as gs

SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
LIGHTS = [gs.AmbientLight(0.5), gs.DirectionalLight((-1.0, -2.0, -1.5))]
NOISE = 0.005


def toss(mesh, look, size) -> gs.Scene:
    """Returns a body that hits the ground and rebounds."""
    body = gs.Rigid(
        "body",
        mesh,
        density=400.0,
        size=size,
        position=(-0.4, 0.5, 0.0),
        velocity=(1.0, 0.3, 0.0),
        angular_velocity=(1.0, 2.0, -4.0),
        look=look,
    )
    ground = gs.Ground(ke=2e4, kd=60.0, kf=100.0, mu=0.4)
    camera = gs.Camera(eye=(0.0, 0.5, 2.5), target=(0.0, 0.25, 0.0), fov=40)
    return gs.Scene([body], ground, camera=camera, lights=LIGHTS)


def record(scene: gs.Scene) -> torch.Tensor:
    """Returns a noisy video of a motion with smaller steps and another integrator than those of the estimate."""
    motion = gs.simulate(scene, frames=14, fps=20, substeps=1000, integrator=gs.SymplecticEuler())
    pixels = gs.render(scene, motion, (48, 48))
    return pixels + NOISE * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(1), dtype=pixels.dtype)


def side(guess):
    return gs.unknown(guess, low=0.05, high=0.6)


def test_sides_of_a_box():
    mesh, look, truth = gs.meshes.box(1.0), gs.Look(face_colors=SIDES), (0.3, 0.2, 0.25)
    video = record(toss(mesh, look, truth))
    fit = gs.estimate(toss(mesh, look, (side(0.2), side(0.3), side(0.2))), video, fps=20, substeps=200, corrections=0)
    assert [float(fit.values[f"body.size[{k}]"]) for k in range(3)] == pytest.approx(truth, rel=1e-3)
    assert all(found.level == "identifiable" for found in fit.identifiability.values())


def test_diameter_of_a_ball():
    mesh, look, d = gs.meshes.icosphere(0.5, 2), gs.Look(smooth=180.0), side(0.2)
    video = record(toss(mesh, look, (0.3, 0.3, 0.3)))
    fit = gs.estimate(toss(mesh, look, (d, d, d)), video, fps=20, substeps=200, corrections=0)
    assert list(fit.values) == ["body.size[0]"]
    assert float(fit.values["body.size[0]"]) == pytest.approx(0.3, rel=1e-3)
