"""Deformable bodies in motion: free fall, friction, impact, drag, vibration, and convergence in the time step."""

from __future__ import annotations

import math

import numpy as np
import torch

from gradsim.check.physics.measure import (
    INTEGRATORS,
    NO_GRAVITY,
    G,
    PhysicsCheck,
    convergence_order,
    expect_convergence,
    node_masses,
    simulate_stable,
)
from gradsim.check.result import CheckResult, expect_close
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.materials import Bending, Ground, Membrane, NeoHookean
from gradsim.scene.quantity import per_element
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate


def free_fall() -> list[CheckResult]:
    """Checks the parabola of a thrown body, which the midpoint rule integrates exactly."""
    body = Soft("ball", meshes.tet_ball(0.2, 2), density=500.0, position=(0.0, 3.0, 0.0), velocity=(2.0, 4.0, -1.0))
    motion = simulate(Scene([body]), frames=11, fps=10.0, substeps=160, integrator=Midpoint())
    got = motion["ball"].position[-1].tolist()
    expected = (2.0, 3.0 + 4.0 - G / 2, -1.0)
    return [
        expect_close("free fall", f"{axis} after 1 s [m]", e, g, 1e-10)
        for axis, e, g in zip("xyz", expected, got, strict=True)
    ]


def incline() -> list[CheckResult]:
    """Checks masses on a slope: they slide at g (sin t - mu cos t), or creep slowly because friction is compliant."""
    slope, mass = math.radians(30.0), 0.5
    friction = torch.tensor([0.0, 0.2, 0.4, 0.8], dtype=torch.float64)
    ke, kf, delta = 1e4, 1e4, 1e-3
    normal, down = (math.sin(slope), math.cos(slope), 0.0), (math.cos(slope), -math.sin(slope), 0.0)
    depth = mass * G * math.cos(slope) / ke + delta / 2  # at which the contact force carries the weight
    points = np.array([[0.0, 0.0, -0.1], [0.0, 0.0, 0.1]]) - depth * np.array(normal)
    pair = Springs("pair", points, [[0, 1]], mass=mass)
    scene = Scene([pair], ground=Ground(ke=ke, kd=50.0, kf=kf, mu=friction, delta=delta, normal=normal))
    motion = simulate(scene, frames=3, fps=2.0, substeps=8000, integrator=SymplecticEuler())
    speed = (motion["pair"].velocity @ torch.tensor(down, dtype=torch.float64)).numpy()  # [worlds, frames]
    results = []
    for world, mu in enumerate(friction.tolist()):
        if mu < math.tan(slope):
            rate = G * (math.sin(slope) - mu * math.cos(slope))
            got = (speed[world, 2] - speed[world, 1]) / 0.5
            results.append(expect_close("incline of 30 deg", f"mu = {mu:g}, acceleration [m/s^2]", rate, got, 0.01))
        else:
            # The smoothed cone a u / sqrt(u^2 + (a / kf)^2), a = mu f_n, balances gravity at this speed.
            creep = mass * G * math.sin(slope) / kf / math.sqrt(1.0 - (math.tan(slope) / mu) ** 2)
            results.append(expect_close("incline of 30 deg", f"mu = {mu:g}, creep [m/s]", creep, speed[world, 2], 0.01))
    return results


def spring_restitution(damping_ratio: float) -> float:
    """Returns the coefficient of restitution of a damped spring without adhesion (Schwager and Poeschel 2007)."""
    root = math.sqrt(1.0 - damping_ratio**2)
    release = math.pi - math.atan2(2.0 * damping_ratio * root, root**2 - damping_ratio**2)  # phase of zero force
    return math.exp(-damping_ratio / root * release)


def bounce() -> list[CheckResult]:
    """Checks the restitution of the contact law without smoothing, a damped spring without adhesion."""
    mass, ke, ratios = 0.5, 1e4, (0.0, 0.1, 0.4)
    kd = torch.tensor([2.0 * ratio * math.sqrt(ke * mass) for ratio in ratios], dtype=torch.float64)
    points = np.array([[0.0, 0.01, -0.1], [0.0, 0.01, 0.1]])
    pair = Springs("pair", points, [[0, 1]], mass=mass, velocity=(0.0, -2.0, 0.0))
    scene = Scene([pair], gravity=NO_GRAVITY, ground=Ground(ke=ke, kd=kd, mu=0.0, delta=0.0))
    speed = simulate(scene, frames=2, fps=20.0, substeps=20000, integrator=Midpoint())["pair"].velocity[:, -1, 1]
    results = []
    for ratio, got in zip(ratios, speed.tolist(), strict=True):
        name = f"restitution, damping ratio {ratio:g}"
        results.append(expect_close("bounce", name, spring_restitution(ratio), got / 2.0, 1e-3))
    return results


def falling_sheet() -> list[CheckResult]:
    """Checks a sheet that falls flat through air: v = V tanh(g t / V), V = sqrt(density g / (drag + lift))."""
    density, drag, lift = 0.2, 0.3, 0.5
    sheet = Cloth("sheet", meshes.grid(0.5, 4), density=density, material=Membrane(15.0, 15.0), drag=drag, lift=lift)
    motion = simulate(Scene([sheet]), frames=31, fps=10.0, substeps=128, integrator=Midpoint())
    final = math.sqrt(density * G / (drag + lift))
    speed = (-motion["sheet"].velocity[:, 1]).tolist()
    return [
        expect_close("falling sheet", "speed after 0.2 s [m/s]", final * math.tanh(G * 0.2 / final), speed[2], 1e-5),
        expect_close("falling sheet", "terminal speed [m/s]", final, speed[-1], 1e-5),
    ]


def first_frequency(cells: int, slender: int = 10) -> tuple[float, float]:
    """Returns the first bending frequency [Hz] of a clamped square beam `cells` thick, and that of beam theory."""
    young, density, thick = 1e6, 1000.0, 1.0 / slender
    root = 1.875104
    expected = root**2 / (2 * math.pi) * math.sqrt(young * thick**2 / (12 * density))
    mesh = meshes.tet_box((1.0, thick, thick), (slender * cells, cells, cells))
    x = mesh.vertices[:, 0] + 0.5
    ratio = (math.cosh(root) + math.cos(root)) / (math.sinh(root) + math.sin(root))
    shape = np.cosh(root * x) - np.cos(root * x) - ratio * (np.sinh(root * x) - np.sin(root * x))
    velocity = np.zeros_like(mesh.vertices)
    velocity[:, 1] = 1e-3 * expected * shape  # amplitudes far below the thickness
    beam = Soft(
        "beam",
        mesh,
        density=density,
        material=NeoHookean.from_young(young, 0.0),
        velocity=per_element(velocity),
        pinned=Region(high=(-0.4999, None, None)),
    )
    scene = Scene([beam], gravity=NO_GRAVITY)
    motion = simulate_stable(scene, duration=0.6 / expected, frames=301)
    # The modal amplitude starts at zero and returns to zero half a period later.
    amplitude = (motion.vertices[:, :, 1] @ (node_masses(scene)[0] * torch.from_numpy(shape))).numpy()
    amplitude -= amplitude[0]
    k = int(np.argmax(amplitude[2:] <= 0.0)) + 1
    half = (k + amplitude[k] / (amplitude[k] - amplitude[k + 1])) * float(motion.time[1])
    return 0.5 / half, expected


def beam_frequency() -> list[CheckResult]:
    """Checks the frequency on refined meshes: linear tetrahedra are too stiff by an error of second order."""
    counts = (2, 4, 6)
    found = [first_frequency(n) for n in counts]
    got, expected = [pair[0] for pair in found], found[0][1]
    results = expect_convergence(
        "vibrating beam", [f"{n} cells thick [Hz]" for n in counts], expected, got, first=0.5, last=0.03
    )
    order = convergence_order(1.0 / np.array(counts), np.array([result.error for result in results]))
    a, b = counts[-2] ** 2, counts[-1] ** 2
    limit = (b * got[-1] - a * got[-2]) / (b - a)
    return [
        *results,
        expect_close("vibrating beam", "order of convergence in the cell size", 2.0, order, 0.1),
        expect_close("vibrating beam", "extrapolated to zero cell size [Hz]", expected, limit, 0.01),
    ]


def cantilevers() -> list[tuple[str, Scene]]:
    """Returns a body of each kind, pinned at one end, whose motion is smooth."""
    beam = Soft(
        "beam",
        meshes.tet_box((0.6, 0.2, 0.2), (3, 1, 1)),
        density=1000.0,
        material=NeoHookean.from_young(8e4, 0.3, damping=50.0),
        pinned=Region(high=(-0.29, None, None)),
    )
    sheet = Cloth(
        "sheet",
        meshes.grid(0.6, 3),
        density=0.5,
        material=Membrane(30.0, 30.0, 0.1),
        bending=Bending(0.05, 1e-3),
        drag=0.3,
        lift=0.5,
        pinned=Region(high=(-0.29, None, None)),
    )
    points, edges = meshes.chain(0.6, 4)
    chain = Springs("chain", points, edges, mass=0.1, stiffness=100.0, damping=0.1, pinned=[0])
    return [("solid", Scene([beam])), ("cloth", Scene([sheet])), ("chain", Scene([chain]))]


def order_in_time() -> list[CheckResult]:
    """Checks the convergence order of both integrators, against a rollout with much smaller steps."""
    counts, duration = np.array([128, 256, 512, 1024]), 0.25

    def end(scene: Scene, steps: int, integrator: Integrator) -> torch.Tensor:
        return simulate(scene, frames=2, fps=1 / duration, substeps=int(steps), integrator=integrator).vertices[-1]

    results = []
    for name, scene in cantilevers():
        finest = end(scene, 32 * counts[-1], Midpoint())
        for integrator in INTEGRATORS:
            errors = [float((end(scene, n, integrator) - finest).norm()) for n in counts]
            order = convergence_order(1.0 / counts, np.array(errors))
            title, expected = f"{name}, {type(integrator).__name__}", integrator.order
            error = abs(order - expected)
            results.append(CheckResult("order of convergence in dt", title, expected, order, error, 0.1))
    return results


CHECKS = (
    PhysicsCheck("free fall", free_fall),
    PhysicsCheck("incline", incline),
    PhysicsCheck("bounce", bounce),
    PhysicsCheck("falling sheet", falling_sheet),
    PhysicsCheck("vibrating beam", beam_frequency),
    PhysicsCheck("order of convergence in dt", order_in_time),
)
