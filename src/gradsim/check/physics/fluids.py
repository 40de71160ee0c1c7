"""Smoke: decay of vortices, divergence, walls, advection, buoyancy, and convergence in the time step."""

from __future__ import annotations

import math

import numpy as np
import torch

from gradsim.check.physics.measure import PhysicsCheck, convergence_order
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Boundary, Closed, Periodic, Smoke, SmokeMotion
from gradsim.simulate.simulate import simulate
from gradsim.simulate.state.smoke_rollout import divergence

BOUNDARIES: tuple[tuple[str, Boundary], ...] = (("closed", Closed()), ("periodic", Periodic()))


def simulate_smoke(smoke: Smoke, *, frames: int, fps: float = 30.0, substeps: int = 2) -> SmokeMotion:
    """Simulates a scene that contains only smoke."""
    motion: SmokeMotion = simulate(Scene([smoke]), frames=frames, fps=fps, substeps=substeps)[smoke.name]
    return motion


def cell_centers(size: tuple[int, int], length: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns x and y of all cell centres [m], [H, W] each."""
    (height, width), cell = size, length / size[1]
    x, y = ((torch.arange(n, dtype=torch.float64) + 0.5) * cell for n in (width, height))
    return x.expand(height, width), y[:, None].expand(height, width)


def random_velocity(size: tuple[int, int], *, seed: int, shortest: float, batch: tuple[int, ...] = ()) -> torch.Tensor:
    """Returns a velocity field [..., H, W, 2] of about 1 m/s with divergence, smooth down to `shortest` cells."""
    random = np.random.default_rng(seed)
    white = torch.as_tensor(random.standard_normal((*batch, 2, *size)))
    k = torch.hypot(*torch.meshgrid(*(torch.fft.fftfreq(n, dtype=torch.float64) for n in size), indexing="ij"))
    smooth = torch.fft.ifft2(torch.fft.fft2(white) * torch.exp(-((k * shortest) ** 2))).real
    return (smooth / smooth.std()).movedim(-3, -1)


def gaussian_density(size: tuple[int, int], center: tuple[float, float], radius: float) -> torch.Tensor:
    """Returns a Gaussian density [H, W]; centre and radius are in units of the width."""
    x, y = cell_centers(size, 1.0)
    return torch.exp(-((x - center[0]) ** 2 + (y - center[1]) ** 2) / (2 * radius**2))


def taylor_green() -> list[CheckResult]:
    """Checks the vortices (sin x cos y, -cos x sin y): their kinetic energy decays as exp(-4 viscosity time)."""
    viscosity, duration, results = 0.05, 2.0, []
    for (label, boundary), length, shift in zip(BOUNDARIES, (math.pi, 2 * math.pi), (0.0, 0.3), strict=True):
        x, y = (c + shift for c in cell_centers((64, 64), length))
        flow = torch.stack([x.sin() * y.cos(), -x.cos() * y.sin()], -1)
        smoke = Smoke("smoke", (64, 64), velocity=flow, viscosity=viscosity, boundary=boundary, length=length)
        for steps, frames, tolerance in ((100, 2, 1e-3), (100, 101, 0.02)):
            substeps, fps = steps // (frames - 1), (frames - 1) / duration
            motion = simulate_smoke(smoke, frames=frames, fps=fps, substeps=substeps)
            energy = motion.velocities.pow(2).sum((-1, -2, -3))
            title = f"{label}, 64 x 64, {steps} steps" + (", one a frame" if frames > 2 else "")
            expected = math.exp(-4 * viscosity * duration)
            results.append(
                expect_close("Taylor-Green decay", title, expected, float(energy[-1] / energy[0]), tolerance)
            )
    return results


def no_divergence() -> list[CheckResult]:
    """Checks that a random velocity field has no divergence after projection, nor after steps with buoyancy."""
    results = []
    for label, boundary in BOUNDARIES:
        size, length = (48, 65), 1.5
        flow = random_velocity(size, seed=1, shortest=1.0)
        smoke = Smoke("smoke", size, gaussian_density(size, (0.5, 0.3), 0.1), flow, 1e-3, 2.0, boundary, length)
        motion = simulate_smoke(smoke, frames=3, fps=10, substeps=5)
        before = divergence(flow, boundary, length).norm()
        after = [float(divergence(v, boundary, length).norm() / before) for v in motion.velocities]
        results.append(expect_zero("divergence", f"{label}: projected / initial", after[0], 1e-8))
        results.append(expect_zero("divergence", f"{label}: after 10 steps / initial", max(after[1:]), 1e-8))
    return results


def closed_box() -> list[CheckResult]:
    """Checks zero flow through walls, zero net flow through any line across the box, and the total density."""
    size = (64, 64)
    flow = random_velocity(size, seed=2, shortest=32.0)
    smoke = Smoke("smoke", size, gaussian_density(size, (0.4, 0.6), 0.1), flow, viscosity=5e-3)
    motion = simulate_smoke(smoke, frames=2, fps=2, substeps=100)
    v = motion.velocities[-1]
    largest = v.abs().max()
    net_flow = max(float(v[..., 0].mean(-2).abs().max()), float(v[..., 1].mean(-1).abs().max()))
    # Quadratic extrapolation from the three cells next to a wall.
    extrapolation = torch.tensor([1.875, -1.25, 0.375], dtype=v.dtype)
    sides = (v[..., :, :3, 0], v[..., :, -3:, 0].flip(-1), v[..., :3, :, 1].mT, v[..., -3:, :, 1].mT.flip(-1))
    wall_velocity = max(float((side @ extrapolation).abs().max()) for side in sides)
    total = motion.densities.sum((-1, -2))
    return [
        expect_zero("closed box", "net flow through any line / largest velocity", net_flow / float(largest), 1e-12),
        expect_zero("closed box", "normal velocity at walls / largest velocity", wall_velocity / float(largest), 2e-3),
        expect_close("closed box", "total density after 100 steps", float(total[0]), float(total[-1]), 1e-3),
    ]


def advection() -> list[CheckResult]:
    """Checks advection by a uniform velocity across a periodic box and back to the start."""
    size = (64, 64)
    density = gaussian_density(size, (0.5, 0.5), 0.08)
    smoke = Smoke("smoke", size, density, (1.0, 2.0), boundary=Periodic())
    _, half, back = simulate_smoke(smoke, frames=3, fps=2, substeps=45).densities
    shifted = density.roll(size[1] // 2, -1)
    return [
        expect_zero("advection", "error after half a period", float((half - shifted).norm() / density.norm()), 5e-3),
        expect_zero("advection", "error after a period", float((back - density).norm() / density.norm()), 5e-3),
        expect_close("advection", "total density", float(density.sum()), float(back.sum()), 1e-12),
    ]


def order_in_time() -> list[CheckResult]:
    """Checks second-order convergence for random vortices with viscosity and buoyancy."""
    size, steps, results = (48, 48), (4, 8, 16, 32, 128), []
    flow, density = random_velocity(size, seed=3, shortest=24.0), gaussian_density(size, (0.45, 0.55), 0.15)
    for label, boundary in BOUNDARIES:
        smoke = Smoke("smoke", size, density, flow, viscosity=0.01, buoyancy=1.0, boundary=boundary)
        ends = [simulate_smoke(smoke, frames=2, fps=4.0, substeps=n).velocities[-1] for n in steps]
        errors = np.array([float((end - ends[-1]).norm()) for end in ends[:-1]])
        order = convergence_order(1.0 / np.array(steps[:-1]), errors)
        results.append(CheckResult("order of convergence in dt", f"smoke, {label}", 2.0, order, abs(order - 2.0), 0.25))
    return results


def buoyant_rise() -> list[CheckResult]:
    """Checks uniform smoke: it accelerates upward in a periodic box, and rests in a closed one, held by pressure."""
    rate, density, duration = 3.0, 0.7, 0.5
    results = []
    for label, boundary in BOUNDARIES:
        smoke = Smoke("smoke", (16, 24), density, buoyancy=rate, boundary=boundary)
        v = simulate_smoke(smoke, frames=2, fps=1 / duration, substeps=10).velocities[-1]
        expected = rate * density * duration * (label == "periodic")
        error = float((v - torch.tensor([0.0, expected], dtype=v.dtype)).abs().max()) / (rate * density * duration)
        got = float(v[..., 1].mean())
        results.append(CheckResult("buoyancy", f"{label}: uniform smoke's velocity [m/s]", expected, got, error, 1e-12))
    return results


CHECKS = (
    PhysicsCheck("Taylor-Green decay", taylor_green),
    PhysicsCheck("divergence of smoke", no_divergence),
    PhysicsCheck("smoke in a closed box", closed_box),
    PhysicsCheck("advection of smoke", advection),
    PhysicsCheck("order of convergence in dt of smoke", order_in_time),
    PhysicsCheck("buoyancy of smoke", buoyant_rise),
)
