"""Inputs that would take more memory or time than there is are refused by name, before anything is allocated."""

from __future__ import annotations

import numpy as np
import pytest

import gradsim as gs
from gradsim.scene.errors import InvalidInput, OutOfMemory, OutOfRange, WrongType

BALL = gs.Rigid("ball", gs.meshes.icosphere(0.1, 1), mass=1.0)
SCENE = gs.Scene([BALL], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))
POINTS = np.eye(3)

TOO_LARGE = {
    "tiles": (lambda: gs.Checker(tile=0.01), OutOfRange, r"Checker\.tile = 0\.01: .* larger"),
    "segments": (lambda: gs.meshes.sphere(1.0, segments=10**9), OutOfMemory, r"segments = 1000000000: would take .*B"),
    "rings": (lambda: gs.meshes.torus(1.0, 0.1, rings=10**6, segments=10**6), OutOfMemory, r"segments = 1000000: "),
    "cells": (lambda: gs.meshes.tet_box(1.0, 10**5), OutOfMemory, r"cells = 100000: would take 1 EB"),
    "chain": (lambda: gs.meshes.chain(1.0, 10**12), OutOfMemory, r"segments = 10+: "),
    "unknowns": (lambda: gs.unknown(1.0, shape=(10**12, 3)), OutOfMemory, r"unknown\.shape = \(10+, 3\): would take"),
    "pixels": (
        lambda: gs.render(SCENE, gs.simulate(SCENE, frames=1), size=(10**5, 10**5)),
        OutOfMemory,
        r"size = \(100000, 100000\): would take",
    ),
    "images": (
        lambda: gs.render(SCENE, gs.simulate(SCENE, frames=1), size=(2000, 2000), frames=[0] * 5000),
        OutOfMemory,
        r"size = \(2000, 2000\) for 5000 images: would take",
    ),
    "endless images": (
        lambda: gs.render(SCENE, gs.simulate(SCENE, frames=1), size=(float("inf"), 8)),
        WrongType,
        r"size = \(inf, 8\)",
    ),
    "frames": (lambda: gs.simulate(SCENE, frames=10**12, substeps=1), InvalidInput, r"frames"),
    "whole frames": (lambda: gs.simulate(SCENE, frames=2**70), OutOfRange, r"substeps = 32: "),
    "substeps": (lambda: gs.simulate(SCENE, frames=2, substeps=10**9), OutOfRange, r"substeps = 1000000000: "),
    "smoke": (lambda: gs.Smoke("smoke", (10**5, 10**5)), OutOfMemory, r"smoke\.size = \(100000, 100000\): would"),
    "slow frames": (lambda: gs.simulate(SCENE, frames=2, fps=5e-324), OutOfRange, r"fps = 5e-324"),
    "fast frames": (lambda: gs.simulate(SCENE, frames=2, fps=float("inf")), OutOfRange, r"fps = inf"),
    "fps as text": (lambda: gs.simulate(SCENE, frames=2, fps="30"), WrongType, r"fps = '30'"),
    "memory as text": (lambda: gs.simulate(SCENE, frames=2, memory="1GB"), WrongType, r"memory = '1GB'"),
    "no memory": (lambda: gs.simulate(SCENE, frames=2, memory=0), OutOfRange, r"memory = 0"),
    "edges that wrap": (
        lambda: gs.Springs("net", POINTS, [[0, 2**32 + 1]]),
        OutOfRange,
        r"net\.edges = 4294967297: node indices",
    ),
    "rows of different lengths": (lambda: gs.TetMesh(np.eye(3), [[1, 2], [3]]), WrongType, r"tets = dtype object"),
    "edges between nodes": (lambda: gs.Springs("net", POINTS, [[0, 2.9]]), WrongType, r"net\.edges = dtype float64"),
}

EXTREME = {
    "mass": (lambda: gs.Rigid("ball", BALL.mesh, mass=1e-160), r"ball\.mass = 1e-160: must be >= 1e-30 \[kg\]"),
    "density": (lambda: gs.Rigid("ball", BALL.mesh, density=5e-324), r"ball\.density = 4.94066e-324: must be >= 1e-30"),
    "gravity": (lambda: gs.Scene([BALL], gravity=(0.0, -1e160, 0.0)), r"scene\.gravity = .* -1e\+160: must be at most"),
    "tetrahedra": (lambda: gs.meshes.tet_box(1e150, 2), r"mesh\.vertices\[0\] = .*: needs numbers of at most 1e\+30"),
    "stiffness": (lambda: gs.Contact(ke=1e300), r"Contact\.ke = 1e\+300: must be at most 1e\+30 in magnitude \[N/m\]"),
    "length": (lambda: gs.Pendulum("bob", length=1e-200), r"bob\.length = 1e-200"),
    "smoke": (lambda: gs.Smoke("fog", (8, 8), 1e200), r"fog\.density = 1e\+200"),
    "camera": (lambda: gs.Camera(eye=(0.0, 0.0, 1e200), target=(0.0, 0.0, 0.0)), r"camera\.eye = .* 1e\+200"),
}


@pytest.mark.parametrize("case", EXTREME)
def test_a_number_whose_products_overflow_is_refused_by_name(case):
    attempt, message = EXTREME[case]
    with pytest.raises(OutOfRange, match=message):
        attempt()


def test_numbers_at_the_limits_have_an_answer():
    ball = gs.Rigid("ball", gs.meshes.icosphere(1e-3, 1), mass=1e-30, velocity=(1e-30, 0.0, 0.0))
    far = gs.Rigid("far", gs.meshes.icosphere(1e20, 1), density=1e-30, position=(1e30, 0.0, 0.0))
    with pytest.warns(gs.StabilityWarning):
        trajectory = gs.simulate(gs.Scene([ball, far]), frames=2, fps=10, substeps=1)
    assert bool(trajectory.vertices.isfinite().all())


@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_size_beyond_reason_is_refused_by_name(case):
    attempt, error, message = TOO_LARGE[case]
    with pytest.raises(error, match=message):
        attempt()


def test_arrays_without_rows_and_rows_of_different_lengths_are_refused_by_name():
    box = gs.meshes.tet_box(1.0, 1)
    with pytest.raises(gs.errors.WrongShape, match=r"b\.pinned = rows of different lengths"):
        gs.Soft("b", box, density=200.0, pinned=[[1, 2], [3]])
    cube = gs.Rigid("cube", gs.meshes.box(1.0), mass=1.0, look=gs.Look(color=np.zeros((0, 3))))
    scene = gs.Scene([cube], camera=gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0)))
    with pytest.raises(gs.errors.WrongShape, match=r"batch = \(0,\): a batch needs at least one world"):
        gs.render(scene, gs.simulate(scene, frames=1), size=(8, 8))


def test_joints_that_move_nothing_with_inertia_are_refused_by_name():
    link = gs.Link(gs.Revolute(stiffness=1.0), mass=1.0)  # a point on the axis
    with pytest.raises(gs.InvalidInput, match=r"arm\.links = links without inertia"):
        gs.simulate(gs.Scene([gs.Articulated("arm", {"upper": link})]), frames=2)
