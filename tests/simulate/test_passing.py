"""Bodies that pass through each other because nothing makes them touch are named in a warning, once."""

import warnings

import numpy as np
import pytest

import gradsim as gs

OWN = {"mesh": gs.meshes.grid(0.4, 4), "density": 0.5, "material": gs.Membrane(50.0, 50.0, 0.01)}
SHEET = gs.Cloth("sheet", **OWN, position=(0.0, 0.15, 0.0))
TIME = {"frames": 7, "fps": 20.0, "substeps": 64}


def still(mesh):
    return gs.Rigid("obstacle", mesh, mass=1.0, motion=gs.Motion(gs.Signal(np.zeros((2, 3)))))


@pytest.mark.parametrize(
    "mesh", [gs.meshes.box(0.2), gs.meshes.icosphere(0.12), gs.meshes.cylinder(0.12, 0.2)], ids=["box", "ball", "mesh"]
)
def test_cloth_that_falls_through_a_rigid_body(mesh):
    scene = gs.Scene([SHEET, still(mesh)])
    with pytest.warns(gs.ContactWarning, match="'sheet' passes through 'obstacle': .*gs.NodeContact"):
        gs.simulate(scene, **TIME)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.simulate(scene, **TIME)  # once
        apart = gs.Scene([gs.Cloth("sheet", **OWN, position=(0.4, 0.15, 0.0)), still(mesh)])
        gs.simulate(apart, **TIME)


def test_bodies_that_touch_are_tied_or_pass_through_each_other_by_request_are_not_named():
    between = gs.NodeContact("between", body="sheet", rigid="obstacle", ke=50.0, kd=0.2, thickness=0.01)
    rope = gs.Tether("rope", body="sheet", nodes=[12], rigid="obstacle", stiffness=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for force in (between, rope):
            gs.simulate(gs.Scene([SHEET, still(gs.meshes.box(0.2))], forces=[force]), **TIME)
        gs.simulate(gs.Scene([SHEET, still(gs.meshes.box(0.2))], pairs=False), **TIME)


@pytest.mark.parametrize("upper", ["cloth", "soft"])
def test_body_that_falls_through_a_soft_body(upper):
    mesh, own = gs.meshes.tet_box((0.3, 0.2, 0.3), 2), {"density": 100.0, "material": gs.NeoHookean(1e4, 1e4, 5.0)}
    fixed = gs.Soft("block", mesh, pinned=np.arange(len(mesh.vertices)), **own)
    falling = SHEET if upper == "cloth" else gs.Soft("other", mesh, position=(0.05, 0.25, 0.02), **own)
    with pytest.warns(gs.ContactWarning, match="passes through .*: self_contact=True of both"):
        gs.simulate(gs.Scene([falling, fixed]), **TIME)
