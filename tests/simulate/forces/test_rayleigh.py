"""Rayleigh damping: the matrices it stands for, decay of a bar, gradients, native kernels, files, wrong input."""

import math

import numpy as np
import pytest
import torch
from tests.simulate.differences import assert_gradients, assert_native_equals_portable, tensors

import gradsim as gs
from gradsim.scene.errors import InvalidInput, OutOfRange

MESH = gs.meshes.tet_box((0.4, 0.2, 0.2), (3, 2, 2))
SIMULATED = {"fps": 1e6, "frames": 2, "substeps": 1, "integrator": gs.SymplecticEuler()}


def force(vertices, velocity, material, element, rayleigh=None):
    """Forces on the nodes of a free body [N], [N, 3]."""
    body = gs.Soft(
        "body",
        MESH,
        1.0,
        material=material,
        vertices=vertices,
        velocity=gs.per_element(velocity),
        element=element,
        rayleigh=rayleigh,
    )
    motion = gs.simulate(gs.Scene([body], gravity=(0.0, 0.0, 0.0)), **SIMULATED)
    mass = np.bincount(MESH.tets.ravel(), np.repeat(MESH.volumes / 4, 4))
    return ((motion.velocities[1] - motion.velocities[0]) * SIMULATED["fps"]).numpy() * mass[:, None]


@pytest.mark.parametrize(
    ("material", "element"),
    [
        (gs.NeoHookean.from_young(1e3, 0.45), gs.SmoothedTet()),
        (gs.NeoHookean.from_young(1e3, 0.0), gs.LinearTet()),
        (gs.MooneyRivlin(c10=300.0, c01=100.0, bulk=1600.0 / 3), gs.LinearTet()),
    ],
    ids=["smoothed", "linear", "Mooney-Rivlin"],
)
def test_forces_are_those_of_the_matrices(material, element):
    moved = np.random.default_rng(0).normal(size=MESH.vertices.shape)
    still = np.zeros_like(moved)
    size = 1e-6
    elastic = force(MESH.vertices + size * moved, still, material, element) / size
    viscous = force(MESH.vertices, moved, material, element, gs.Rayleigh(stiffness=2e-3))
    assert np.abs(viscous - 2e-3 * elastic).max() < 1e-4 * np.abs(viscous).max()
    mass = np.bincount(MESH.tets.ravel(), np.repeat(MESH.volumes / 4, 4))
    braked = force(MESH.vertices, moved, material, element, gs.Rayleigh(mass=3.0))
    assert np.abs(braked + 3.0 * mass[:, None] * moved).max() < 1e-5 * np.abs(braked).max()


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_bar_decays_at_the_ratio(part):
    length, young, density, ratio = 1.0, 1e4, 100.0, 0.05
    omega = 0.5 * math.pi / length * math.sqrt(young / density)
    mesh = gs.meshes.tet_box((length, 0.1, 0.1), (20, 1, 1))
    shape = np.sin(0.5 * math.pi * (mesh.vertices[:, 0] / length + 0.5))
    velocity = np.zeros_like(mesh.vertices)
    velocity[:, 0] = 1e-3 * shape
    damping = gs.Rayleigh(ratio=ratio, frequency=omega / (2 * math.pi), stiffness_part=part)
    bar = gs.Soft(
        "bar",
        mesh,
        density,
        material=gs.NeoHookean.from_young(young, 0.0),
        velocity=gs.per_element(velocity),
        pinned=gs.Region(high=(-0.499, None, None)),
        rayleigh=damping,
        element=gs.LinearTet(),
    )
    frames, fps = 41, 40.0
    motion = gs.simulate(
        gs.Scene([bar], gravity=(0, 0, 0)), frames=frames, fps=fps, substeps=64, integrator=gs.Verlet()
    )
    found = (motion["bar"].vertices[..., 0].numpy() - mesh.vertices[:, 0]) @ shape / (shape @ shape)
    t, damped = np.arange(frames) / fps, omega * math.sqrt(1 - ratio**2)
    expected = 1e-3 / damped * np.exp(-ratio * omega * t) * np.sin(damped * t)
    assert np.abs(found - expected).max() < 4e-3 * np.abs(expected).max()


def values():
    rng = np.random.default_rng(1)
    given = {"mass": 2.0, "stiffness": 1e-3, "young": 1e3 * rng.uniform(0.5, 2.0, len(MESH.tets)), "poisson": 0.4}
    return tensors(given | {"density": 50.0, "velocity": 0.3 * rng.normal(size=MESH.vertices.shape)})


def scene(p, element=gs.SmoothedTet()):
    body = gs.Soft(
        "body",
        MESH,
        p["density"],
        material=gs.NeoHookean.from_young(gs.per_element(p["young"]), p["poisson"], damping=1.0),
        velocity=gs.per_element(p["velocity"]),
        pinned=[0, 1, 2],
        rayleigh=gs.Rayleigh(p["mass"], p["stiffness"]),
        element=element,
    )
    return gs.Scene([body])


def test_gradients_agree_with_differences():
    options = {"frames": 3, "fps": 100.0, "substeps": 24, "integrator": gs.Verlet()}
    assert_gradients(scene, values(), tolerance=1e-6, steps=(1e-4, 1e-5, 1e-6), **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_native_kernels_equal_portable_ones(dtype):
    given = {name: value.to(dtype) for name, value in values().items()}
    assert_native_equals_portable(scene(given, gs.LinearTet()), gs.Verlet(), dtype=dtype, steps=5, dt=2e-4)


def test_the_ratio_is_a_natural_unknown():
    damping = gs.Rayleigh(ratio=gs.unknown(0.1, low=0.01, high=0.5), frequency=4.0)
    body = gs.Soft("body", MESH, 1.0, rayleigh=damping)
    assert list(gs.Scene([body]).unknowns) == ["body.rayleigh.ratio"]


def test_short_waves_need_smaller_steps():
    plain, damped = (gs.Soft("body", MESH, 1.0, rayleigh=given) for given in (None, gs.Rayleigh(stiffness=0.05)))
    assert gs.stable_dt(gs.Scene([damped]), gs.Verlet()) < 0.2 * gs.stable_dt(gs.Scene([plain]), gs.Verlet())


def test_files_keep_the_damping(tmp_path):
    damping = gs.Rayleigh(ratio=0.1, frequency=4.0, stiffness_part=0.3)
    gs.Scene([gs.Soft("body", MESH, 1.0, rayleigh=damping)]).save(tmp_path / "body.yaml")
    read = gs.load_scene(tmp_path / "body.yaml")["body"].rayleigh
    assert (float(read.ratio), read.frequency, read.stiffness_part) == (0.1, 4.0, 0.3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "mass"),
        ({"ratio": 0.1}, "frequency"),
        ({"ratio": 0.1, "frequency": 2.0, "mass": 1.0}, "ratio"),
        ({"ratio": 0.1, "frequency": 0.0}, "frequency"),
        ({"ratio": 0.1, "frequency": 1.0, "stiffness_part": 2.0}, "stiffness_part"),
        ({"mass": -1.0}, "mass"),
    ],
)
def test_wrong_input_is_refused(given, message):
    with pytest.raises((InvalidInput, OutOfRange), match=rf"Rayleigh\.{message}"):
        gs.Rayleigh(**given)
