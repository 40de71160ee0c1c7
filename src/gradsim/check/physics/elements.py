"""Elements at a state: the patch test, and rigid motions that neither elasticity nor damping may feel."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import STILL, Check, forces
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, NodeBody, Soft, Springs
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import per_element
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State

ROUNDING = 1e-10


def uneven_ball() -> TetMesh:
    """A ball whose inner nodes are moved about, so that no two tetrahedra are alike."""
    ball = meshes.tet_ball(0.5, 4)
    inside = np.setdiff1d(np.arange(len(ball.vertices)), ball.surface)
    points = ball.vertices.copy()
    points[inside] += np.random.default_rng(1).uniform(-0.03, 0.03, (len(inside), 3))
    return TetMesh(points, ball.tets)


def uneven_sheet() -> TriMesh:
    """A flat sheet in the x-z plane whose inner nodes are moved about in it."""
    sheet = meshes.grid(1.0, 5)
    inside = np.abs(sheet.vertices).max(axis=1) < 0.49
    points = sheet.vertices.copy()
    points[inside] += np.random.default_rng(2).uniform(-0.05, 0.05, (inside.sum(), 3)) * (1.0, 0.0, 1.0)
    return TriMesh(points, sheet.faces)


def curved_sheet() -> TriMesh:
    """A saddle, curved in both directions."""
    sheet = meshes.grid(1.0, 5)
    x, _, z = sheet.vertices.T
    return TriMesh(np.stack([x, 0.6 * x * x - 0.4 * z * z + 0.3 * x * z, z], axis=1), sheet.faces)


def solid_patch() -> list[Fact]:
    """A uniform deformation and its rate: no force inside, and on the surface the traction of the stress P."""
    mesh, mu, lam, damping = uneven_ball(), 3e4, 5e4, 2e3
    F = np.array([[1.2, 0.3, -0.1], [0.05, 0.9, 0.2], [0.15, -0.25, 1.1]])
    rate = np.array([[1.0, -2.0, 0.5], [3.0, -1.5, 1.0], [-0.5, 2.0, 0.7]])
    J = np.linalg.det(F)
    elastic = mu * (1 - 1 / ((F**2).sum() + 1)) * F + (lam * (J - 1) - 0.75 * mu) * J * np.linalg.inv(F).T
    stress = elastic + damping * F @ (F.T @ rate + rate.T @ F) / 2

    a, b, c = (mesh.vertices[mesh.surface[:, k]] for k in range(3))
    areas = np.zeros_like(mesh.vertices)  # a third of the outward area vectors of the faces about a node
    np.add.at(areas, mesh.surface.ravel(), np.repeat(np.cross(b - a, c - a) / 6.0, 3, axis=0))
    body = Soft(
        "ball",
        mesh,
        mass=1.0,
        material=NeoHookean(mu, lam, damping),
        vertices=mesh.vertices @ F.T + (0.3, -0.2, 0.5),
        velocity=per_element(mesh.vertices @ rate.T),
    )
    return _patch_facts("patch test, solid", body, -areas @ stress.T, np.unique(mesh.surface))


def membrane_patch() -> list[Fact]:
    """The same for a flat sheet, stretched, sheared and tilted in space."""
    mesh, mu, lam, damping = uneven_sheet(), 3e2, 5e2, 20.0
    F = np.array([[1.2, 0.3], [0.4, -0.2], [-0.1, 0.9]])  # from rest (x, z) to space
    rate = np.array([[1.0, -2.0], [3.0, -1.5], [-0.5, 2.0]])
    metric = F.T @ F
    J = np.sqrt(np.linalg.det(metric))
    elastic = mu * (1 - 1 / (np.trace(metric) + 1)) * F + (lam * (J - 1) - 2 / 3 * mu) * J * F @ np.linalg.inv(metric)
    stress = elastic + damping * F @ (F.T @ rate + rate.T @ F) / 2

    flat = mesh.vertices[:, [0, 2]]
    half = np.concatenate([mesh.faces[:, [k, (k + 1) % 3]] for k in range(3)]).tolist()
    pairs = {tuple(pair) for pair in half}
    border = np.array([(i, j) for i, j in half if (j, i) not in pairs])
    along = flat[border[:, 1]] - flat[border[:, 0]]
    # Counter-clockwise about +y runs from z to x: the outside lies to the left in (x, z).
    lengths = np.zeros_like(flat)  # half of the outward edge vectors about a node
    np.add.at(lengths, border.ravel(), np.repeat(np.stack([-along[:, 1], along[:, 0]], axis=1) / 2.0, 2, axis=0))
    body = Cloth(
        "sheet",
        mesh,
        mass=1.0,
        material=Membrane(mu, lam, damping),
        vertices=flat @ F.T + (0.3, -0.2, 0.5),
        velocity=per_element(flat @ rate.T),
    )
    return _patch_facts("patch test, membrane", body, -lengths @ stress.T, np.unique(border))


def _patch_facts(topic: str, body: NodeBody, expected: np.ndarray, border: np.ndarray) -> list[Fact]:
    got = forces(Scene([body], gravity=STILL))[0].numpy()
    inside = np.setdiff1d(np.arange(len(got)), border)
    wrong = np.abs(got - expected) / np.abs(expected).max()
    return [
        small(topic, f"force on {len(inside)} inner nodes / traction", wrong[inside].max(), ROUNDING),
        small(topic, f"error of the traction on {len(border)} outer nodes", wrong[border].max(), ROUNDING),
    ]


def resting_bodies(stiffness: float, damping: float) -> list[tuple[str, NodeBody, np.ndarray, float]]:
    """A body for each kind of element: name, body, rest shape, and what turns a modulus into a force."""
    ball, saddle = uneven_ball(), curved_sheet()
    size = float(saddle.areas.min()) ** 0.5
    hinged = Cloth("body", saddle, mass=1.0, material=Membrane(1e-9, 0.0), bending=Bending(stiffness, damping))
    net = Springs("body", saddle.vertices, saddle.edges, stiffness=stiffness, damping=damping)
    return [
        (
            "tetrahedra",
            Soft("body", ball, mass=1.0, material=NeoHookean(stiffness, 2 * stiffness, damping)),
            ball.vertices,
            float(ball.volumes.min()) ** (2 / 3),
        ),
        (
            "membrane",
            Cloth("body", saddle, mass=1.0, material=Membrane(stiffness, 2 * stiffness, damping)),
            saddle.vertices,
            size,
        ),
        ("hinges", hinged, saddle.vertices, 1 / float(saddle.areas.max()) ** 0.5),
        ("springs", net, saddle.vertices, size),
    ]


def rotated_rest() -> list[Fact]:
    """Bodies turned as a whole, four ways at once: no force."""
    turns = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    facts = []
    for name, body, points, size in resting_bodies(1e3, 0.0):
        turned = torch.from_numpy(points @ np.swapaxes(turns, 1, 2) + (0.4, -0.7, 0.2))
        worst = forces(Scene([body], gravity=STILL), State(turned, torch.zeros_like(turned))).abs().max()
        facts.append(
            small("rotated rest body", f"{name}, force / (stiffness x size)", float(worst) / (1e3 * size), ROUNDING)
        )
    return facts


def rigid_damping() -> list[Fact]:
    """Translation and rotation of bodies at rest: strong damping feels neither."""
    drift, spin = np.array([2.0, 1.0, -3.0]), np.array([1.5, -2.0, 1.0])
    facts = []
    for name, body, points, size in resting_bodies(1e-3, 1e3):
        moves = torch.from_numpy(np.stack([np.broadcast_to(drift, points.shape), np.cross(spin, points)]))
        start = State(torch.from_numpy(points.copy()), moves)
        worst = forces(Scene([body], gravity=STILL), start).abs().amax((1, 2)) / (1e3 * size * np.linalg.norm(spin))
        for motion, got in zip(("translation", "rotation"), worst.tolist(), strict=True):
            facts.append(
                small("damping under rigid motion", f"{name}, {motion}, force / (damping x rate x size)", got, ROUNDING)
            )
    return facts


def hinge_and_spring() -> list[Fact]:
    """One fold and one spring, bent and pulled at a known rate: the printed laws, as controls of the zeros below."""
    h, angle, rate = 0.4, 0.7, -3.0
    points = np.array([[-h, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [h, 0.0, 0.5]])
    mesh = TriMesh(points, np.array([[0, 2, 1], [1, 2, 3]]))
    folded, turning = points.copy(), np.zeros_like(points)
    folded[3] = (h * np.cos(angle), -h * np.sin(angle), 0.5)
    onward = np.array([-np.sin(angle), -np.cos(angle), 0.0])
    turning[3] = rate * h * onward
    law = Bending(20.0, 2.0)
    fold = Cloth(
        "fold",
        mesh,
        mass=1.0,
        bending=law,
        material=Membrane(1e-9, 0.0),
        vertices=folded,
        velocity=per_element(turning),
    )
    torque = (20.0 * angle + 2.0 * rate) / h  # the weight of this hinge is 1 / h
    got = forces(Scene([fold], gravity=STILL))[0, 3].numpy()

    ends, apart = np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.8]]), np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
    spring = Springs(
        "spring", ends, [[0, 1]], stiffness=30.0, damping=2.0, rest_length=0.8, velocity=per_element(apart)
    )
    pull = forces(Scene([spring], gravity=STILL))[0, 0].numpy() @ ends[1]
    return [
        relative("folded hinge", "force on an opposite node [N]", -torque / h, float(got @ onward), ROUNDING),
        relative("stretched spring", "force along it [N]", 30.0 * 0.2 + 2.0 * 5.0 * 0.6, float(pull), ROUNDING),
    ]


CHECKS = (
    Check("patch test of solids", solid_patch),
    Check("patch test of membranes", membrane_patch),
    Check("one hinge, one spring", hinge_and_spring),
    Check("rotated rest bodies", rotated_rest),
    Check("damping under rigid motion", rigid_damping),
)
