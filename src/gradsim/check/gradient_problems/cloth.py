"""Cloth in the air and in contact, and a spring net."""

from __future__ import annotations

import numpy as np

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, contact_values, ground, lognormal, noise, tensor
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Springs
from gradsim.scene.materials import Bending, Membrane
from gradsim.scene.quantity import Signal, per_element
from gradsim.scene.scene import Scene

_SHEET = meshes.grid((0.4, 0.3), (4, 3))


def _cloth_values() -> Values:
    nodes, triangles, hinges = len(_SHEET.vertices), len(_SHEET.faces), len(_SHEET.hinges)
    return {
        "vertices": tensor(_SHEET.vertices + noise(11, nodes, 3, scale=0.01)),
        "position": tensor([0.0, 1.0, 0.0]),
        "velocity": tensor(np.array([1.0, -2.0, 0.5]) + noise(12, nodes, 3, scale=0.5)),
        "mass": lognormal(13, 0.02, nodes),
        "mu": lognormal(14, 300.0, triangles),
        "lam": lognormal(15, 200.0, triangles),
        "damping": lognormal(16, 0.2, triangles),
        "bending": lognormal(17, 0.02, triangles),
        "bending_damping": lognormal(18, 1e-4, triangles),
        "drag": lognormal(19, 1.0, triangles),
        "lift": lognormal(20, 2.0, triangles),
        "actuation": tensor(noise(21, 3, triangles, scale=0.1)),
        "folding": tensor(noise(22, 4, hinges, scale=0.3)),
        "gravity": tensor([0.5, -9.0, 0.3]),
        "force": tensor(noise(23, nodes, 3, scale=0.1)),
    }


def _cloth_scene(p: Values) -> Scene:
    body = Cloth(
        "sheet",
        _SHEET,
        mass=per_element(p["mass"]),
        material=Membrane(per_element(p["mu"]), per_element(p["lam"]), per_element(p["damping"])),
        bending=Bending(per_element(p["bending"]), per_element(p["bending_damping"])),
        drag=per_element(p["drag"]),
        lift=per_element(p["lift"]),
        vertices=p["vertices"],
        position=p["position"],
        velocity=per_element(p["velocity"]),
        actuation=Signal(per_element(p["actuation"])),
        folding=Signal(per_element(p["folding"])),
        force=per_element(p["force"]),
        pinned=Region(high=(-0.19, None, -0.14)),
    )
    return Scene([body], gravity=p["gravity"])


def _cloth_impact_values() -> Values:
    return {
        "density": tensor(0.5),
        "mu": tensor(300.0),
        "lam": tensor(200.0),
        "bending": tensor(0.01),
        "drag": tensor(0.5),
        "rotation": tensor([0.1, 0.0, 0.15, 1.0]),
        "velocity": tensor([0.7, -1.0, 0.2]),
        **contact_values(100.0, 0.05, 0.3, 0.5),
    }


def _cloth_impact_scene(p: Values) -> Scene:
    body = Cloth(
        "sheet",
        _SHEET,
        p["density"],
        material=Membrane(p["mu"], p["lam"], 0.2),
        bending=Bending(p["bending"]),
        drag=p["drag"],
        position=(0.0, 0.12, 0.0),
        rotation=p["rotation"],
        velocity=p["velocity"],
    )
    return Scene([body], ground(p))


_NET = meshes.grid((0.3, 0.3), (3, 3))


def _spring_values() -> Values:
    nodes, edges = len(_NET.vertices), len(_NET.edges)
    lengths = np.linalg.norm(_NET.vertices[_NET.edges[:, 1]] - _NET.vertices[_NET.edges[:, 0]], axis=1)
    return {
        "points": tensor(_NET.vertices + noise(31, nodes, 3, scale=0.01)),
        "position": tensor([0.0, 0.03, 0.0]),
        "velocity": tensor(np.array([0.5, -1.0, 0.2]) + noise(32, nodes, 3, scale=0.3)),
        "mass": lognormal(33, 0.1, nodes),
        "stiffness": lognormal(34, 400.0, edges),
        "damping": lognormal(35, 0.5, edges),
        "rest_length": tensor(lengths * np.exp(0.1 * noise(36, edges))),
        "gravity": tensor([0.5, -9.0, 0.3]),
        "force": tensor(noise(37, 3, nodes, 3, scale=0.5)),
        **contact_values(800.0, 1.0, 3.0, 0.5),
    }


def _spring_scene(p: Values) -> Scene:
    body = Springs(
        "net",
        p["points"],
        _NET.edges,
        mass=per_element(p["mass"]),
        stiffness=per_element(p["stiffness"]),
        damping=per_element(p["damping"]),
        rest_length=per_element(p["rest_length"]),
        position=p["position"],
        velocity=per_element(p["velocity"]),
        force=Signal(per_element(p["force"])),
        pinned=[3],
    )
    return Scene([body], ground(p), p["gravity"])


CLOTH_FLIGHT = GradientProblem("cloth in the air", "cloth", _cloth_scene, _cloth_values)
CLOTH_IMPACT = GradientProblem("cloth hits the ground", "cloth", _cloth_impact_scene, _cloth_impact_values)
SPRING_IMPACT = GradientProblem("spring net hits the ground", "mass-spring", _spring_scene, _spring_values, fps=50.0)
