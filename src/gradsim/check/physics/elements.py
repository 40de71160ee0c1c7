"""Forces of single elements: the patch test, and zero elastic and damping forces under rigid motion."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.physics.measure import NO_GRAVITY, PhysicsCheck, node_forces
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Soft, Springs
from gradsim.scene.body import NodeBody
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import per_element
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State

ROUNDING = 1e-10


def uneven_ball() -> TetMesh:
    """Returns a ball with randomly displaced inner nodes, so that no two tetrahedra are alike."""
    ball = meshes.tet_ball(0.5, 4)
    inside = np.setdiff1d(np.arange(len(ball.vertices)), ball.surface)
    points = ball.vertices.copy()
    points[inside] += np.random.default_rng(1).uniform(-0.03, 0.03, (len(inside), 3))
    return TetMesh(points, ball.tets)


def uneven_sheet() -> TriMesh:
    """Returns a flat sheet in the x-z plane with inner nodes randomly displaced in the plane."""
    sheet = meshes.grid(1.0, 5)
    inside = np.abs(sheet.vertices).max(axis=1) < 0.49
    points = sheet.vertices.copy()
    points[inside] += np.random.default_rng(2).uniform(-0.05, 0.05, (inside.sum(), 3)) * (1.0, 0.0, 1.0)
    return TriMesh(points, sheet.faces)


def curved_sheet() -> TriMesh:
    """Returns a saddle, curved in both directions."""
    sheet = meshes.grid(1.0, 5)
    x, _, z = sheet.vertices.T
    return TriMesh(np.stack([x, 0.6 * x * x - 0.4 * z * z + 0.3 * x * z, z], axis=1), sheet.faces)


def solid_patch() -> list[CheckResult]:
    """Checks a uniform deformation and rate: zero force inside, and the traction of the stress P on the surface."""
    mesh, mu, lam, damping = uneven_ball(), 3e4, 5e4, 2e3
    F = np.array([[1.2, 0.3, -0.1], [0.05, 0.9, 0.2], [0.15, -0.25, 1.1]])
    rate = np.array([[1.0, -2.0, 0.5], [3.0, -1.5, 1.0], [-0.5, 2.0, 0.7]])
    J = np.linalg.det(F)
    elastic = mu * (1 - 1 / ((F**2).sum() + 1)) * F + (lam * (J - 1) - 0.75 * mu) * J * np.linalg.inv(F).T
    stress = elastic + damping * F @ (F.T @ rate + rate.T @ F) / 2

    a, b, c = (mesh.vertices[mesh.surface[:, k]] for k in range(3))
    areas = np.zeros_like(mesh.vertices)  # a third of the outward area vectors of the adjacent faces
    np.add.at(areas, mesh.surface.ravel(), np.repeat(np.cross(b - a, c - a) / 6.0, 3, axis=0))
    body = Soft(
        "ball",
        mesh,
        mass=1.0,
        material=NeoHookean(mu, lam, damping),
        vertices=mesh.vertices @ F.T + (0.3, -0.2, 0.5),
        velocity=per_element(mesh.vertices @ rate.T),
    )
    return _patch_results("patch test, solid", body, -areas @ stress.T, np.unique(mesh.surface))


def membrane_patch() -> list[CheckResult]:
    """Checks the same for a flat sheet, stretched, sheared and tilted in space."""
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
    # Counter-clockwise about +y runs from z to x: the outward side is on the left in (x, z).
    lengths = np.zeros_like(flat)  # half of the outward edge vectors of the adjacent edges
    np.add.at(lengths, border.ravel(), np.repeat(np.stack([-along[:, 1], along[:, 0]], axis=1) / 2.0, 2, axis=0))
    body = Cloth(
        "sheet",
        mesh,
        mass=1.0,
        material=Membrane(mu, lam, damping),
        vertices=flat @ F.T + (0.3, -0.2, 0.5),
        velocity=per_element(flat @ rate.T),
    )
    return _patch_results("patch test, membrane", body, -lengths @ stress.T, np.unique(border))


def _patch_results(topic: str, body: NodeBody, expected: np.ndarray, border: np.ndarray) -> list[CheckResult]:
    got = node_forces(Scene([body], gravity=NO_GRAVITY))[0].numpy()
    inside = np.setdiff1d(np.arange(len(got)), border)
    error = np.abs(got - expected) / np.abs(expected).max()
    return [
        expect_zero(topic, f"force on {len(inside)} inner nodes / traction", error[inside].max(), ROUNDING),
        expect_zero(topic, f"error of the traction on {len(border)} outer nodes", error[border].max(), ROUNDING),
    ]


def bodies_at_rest(stiffness: float, damping: float) -> list[tuple[str, NodeBody, np.ndarray, float]]:
    """Returns for each kind of element: name, body, rest positions, and the factor from modulus to force."""
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


def rotated_rest() -> list[CheckResult]:
    """Checks that bodies have no force after a rigid rotation, for four random rotations."""
    rotations = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 3, 3)))[0]
    rotations *= np.linalg.det(rotations)[:, None, None]
    results = []
    for name, body, points, size in bodies_at_rest(1e3, 0.0):
        rotated = torch.from_numpy(points @ np.swapaxes(rotations, 1, 2) + (0.4, -0.7, 0.2))
        worst = node_forces(Scene([body], gravity=NO_GRAVITY), State(rotated, torch.zeros_like(rotated))).abs().max()
        got = float(worst) / (1e3 * size)
        results.append(expect_zero("rotated body at rest", f"{name}, force / (stiffness x size)", got, ROUNDING))
    return results


def rigid_damping() -> list[CheckResult]:
    """Checks that translation and rotation of bodies at rest cause no damping force."""
    drift, spin = np.array([2.0, 1.0, -3.0]), np.array([1.5, -2.0, 1.0])
    results = []
    for name, body, points, size in bodies_at_rest(1e-3, 1e3):
        velocities = torch.from_numpy(np.stack([np.broadcast_to(drift, points.shape), np.cross(spin, points)]))
        start = State(torch.from_numpy(points.copy()), velocities)
        worst = node_forces(Scene([body], gravity=NO_GRAVITY), start).abs().amax((1, 2))
        scale = 1e3 * size * np.linalg.norm(spin)
        for motion, got in zip(("translation", "rotation"), (worst / scale).tolist(), strict=True):
            title = f"{name}, {motion}, force / (damping x rate x size)"
            results.append(expect_zero("damping under rigid motion", title, got, ROUNDING))
    return results


def hinge_and_spring() -> list[CheckResult]:
    """Checks the forces of one hinge and one spring at a known strain and rate: the counterpart of the zeros below."""
    h, angle, rate = 0.4, 0.7, -3.0
    points = np.array([[-h, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [h, 0.0, 0.5]])
    mesh = TriMesh(points, np.array([[0, 2, 1], [1, 2, 3]]))
    folded, velocities = points.copy(), np.zeros_like(points)
    folded[3] = (h * np.cos(angle), -h * np.sin(angle), 0.5)
    tangent = np.array([-np.sin(angle), -np.cos(angle), 0.0])
    velocities[3] = rate * h * tangent
    bending = Bending(20.0, 2.0)
    fold = Cloth(
        "fold",
        mesh,
        mass=1.0,
        bending=bending,
        material=Membrane(1e-9, 0.0),
        vertices=folded,
        velocity=per_element(velocities),
    )
    torque = (20.0 * angle + 2.0 * rate) / h  # the weight of this hinge is 1 / h
    got = node_forces(Scene([fold], gravity=NO_GRAVITY))[0, 3].numpy()

    ends, velocities = np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.8]]), np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
    spring = Springs(
        "spring", ends, [[0, 1]], stiffness=30.0, damping=2.0, rest_length=0.8, velocity=per_element(velocities)
    )
    pull = node_forces(Scene([spring], gravity=NO_GRAVITY))[0, 0].numpy() @ ends[1]
    return [
        expect_close("folded hinge", "force on an opposite node [N]", -torque / h, float(got @ tangent), ROUNDING),
        expect_close("stretched spring", "force along it [N]", 30.0 * 0.2 + 2.0 * 5.0 * 0.6, float(pull), ROUNDING),
    ]


CHECKS = (
    PhysicsCheck("patch test of solids", solid_patch),
    PhysicsCheck("patch test of membranes", membrane_patch),
    PhysicsCheck("one hinge, one spring", hinge_and_spring),
    PhysicsCheck("rotated bodies at rest", rotated_rest),
    PhysicsCheck("damping under rigid motion", rigid_damping),
)
