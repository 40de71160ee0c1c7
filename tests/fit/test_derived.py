"""Estimates of derived quantities: Young's modulus and total mass of a soft body."""

import pytest

import gradsim as gs


def hanging_beam(young, total_mass) -> gs.Scene:
    """Returns a beam that sags at one end, and is pulled up by a known force at the other."""
    beam = gs.Soft(
        "beam",
        gs.meshes.tet_box((0.4, 0.1, 0.1), (5, 1, 1)),
        total_mass=total_mass,
        material=gs.NeoHookean.from_young(young, 0.35, damping=30.0),
        pinned=gs.Region(high=(-0.19, None, None)),
        force=(0.02, 0.12, 0.0),
    )
    return gs.Scene([beam], camera=gs.Camera(eye=(0.0, 0.0, 1.0), target=(0.0, 0.0, 0.0), fov=40))


def test_youngs_modulus_and_total_mass():
    scene = hanging_beam(2e4, 1.5)
    motion = gs.simulate(scene, frames=10, fps=30, substeps=300, integrator=gs.SymplecticEuler())
    video = gs.render(scene, motion, (32, 32))
    unknown = hanging_beam(gs.unknown(4e4, low=5e3, high=1e5), gs.unknown(1.0, low=0.5, high=5.0))
    fit = gs.estimate(unknown, video, fps=30, substeps=60, corrections=0)
    assert float(fit.values["beam.material.young"]) == pytest.approx(2e4, rel=0.01)
    assert float(fit.values["beam.total_mass"]) == pytest.approx(1.5, rel=0.01)
    assert "beam.material.young [Pa]" in str(fit)
