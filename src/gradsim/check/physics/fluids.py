"""Smoke against known answers: decay of vortices, divergence, walls, transport, buoyancy; and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import Check, fitted_order
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Boundary, Closed, Periodic, Smoke, SmokeMotion
from gradsim.simulate.simulate import simulate
from gradsim.simulate.state.smoke_rollout import divergence

BOUNDARIES: tuple[tuple[str, Boundary], ...] = (("closed", Closed()), ("periodic", Periodic()))


def moved(smoke: Smoke, *, frames: int, fps: float = 30.0, substeps: int = 2) -> SmokeMotion:
    """How smoke moves when it is all there is."""
    motion: SmokeMotion = simulate(Scene([smoke]), frames=frames, fps=fps, substeps=substeps)[smoke.name]
    return motion


def centers(size: tuple[int, int], length: float) -> tuple[torch.Tensor, torch.Tensor]:
    """x and y of all cells [m], each [H, W]."""
    (height, width), cell = size, length / size[1]
    x, y = ((torch.arange(n, dtype=torch.float64) + 0.5) * cell for n in (width, height))
    return x.expand(height, width), y[:, None].expand(height, width)


def random_flow(size: tuple[int, int], *, seed: int, shortest: float, batch: tuple[int, ...] = ()) -> torch.Tensor:
    """Velocity [..., H, W, 2] of about 1 m/s, with and without divergence, smooth down to `shortest` cells."""
    random = np.random.default_rng(seed)
    white = torch.as_tensor(random.standard_normal((*batch, 2, *size)))
    k = torch.hypot(*torch.meshgrid(*(torch.fft.fftfreq(n, dtype=torch.float64) for n in size), indexing="ij"))
    smooth = torch.fft.ifft2(torch.fft.fft2(white) * torch.exp(-((k * shortest) ** 2))).real
    return (smooth / smooth.std()).movedim(-3, -1)


def blob(size: tuple[int, int], center: tuple[float, float], radius: float) -> torch.Tensor:
    """A Gaussian puff of smoke, in parts of the width, [H, W]."""
    x, y = centers(size, 1.0)
    return torch.exp(-((x - center[0]) ** 2 + (y - center[1]) ** 2) / (2 * radius**2))


def taylor_green() -> list[Fact]:
    """Vortices (sin x cos y, -cos x sin y): all of them decay together, kinetic energy as exp(-4 viscosity time)."""
    viscosity, duration, facts = 0.05, 2.0, []
    for (label, boundary), length, shift in zip(BOUNDARIES, (math.pi, 2 * math.pi), (0.0, 0.3), strict=True):
        x, y = (c + shift for c in centers((64, 64), length))
        flow = torch.stack([x.sin() * y.cos(), -x.cos() * y.sin()], -1)
        smoke = Smoke("smoke", (64, 64), velocity=flow, viscosity=viscosity, boundary=boundary, length=length)
        for steps, frames, tolerance in ((100, 2, 1e-3), (100, 101, 0.02)):
            substeps, fps = steps // (frames - 1), (frames - 1) / duration
            motion = moved(smoke, frames=frames, fps=fps, substeps=substeps)
            energy = motion.velocities.pow(2).sum((-1, -2, -3))
            title = f"{label}, 64 x 64, {steps} steps" + (" of a frame each" if frames > 2 else "")
            expected = math.exp(-4 * viscosity * duration)
            facts.append(relative("Taylor-Green decay", title, expected, float(energy[-1] / energy[0]), tolerance))
    return facts


def no_divergence() -> list[Fact]:
    """A rough random flow has no divergence after projection, at the start and after steps with buoyancy."""
    facts = []
    for label, boundary in BOUNDARIES:
        size, length = (48, 65), 1.5
        flow = random_flow(size, seed=1, shortest=1.0)
        smoke = Smoke("smoke", size, blob(size, (0.5, 0.3), 0.1), flow, 1e-3, 2.0, boundary, length)
        motion = moved(smoke, frames=3, fps=10, substeps=5)
        before = divergence(flow, boundary, length).norm()
        after = [float(divergence(v, boundary, length).norm() / before) for v in motion.velocities]
        facts.append(small("divergence", f"{label}: projected / given", after[0], 1e-8))
        facts.append(small("divergence", f"{label}: after 10 steps / given", max(after[1:]), 1e-8))
    return facts


def closed_box() -> list[Fact]:
    """Nothing flows through walls, nor on balance through any line across the box; smoke is kept, if not exactly."""
    size = (64, 64)
    flow = random_flow(size, seed=2, shortest=32.0)
    smoke = Smoke("smoke", size, blob(size, (0.4, 0.6), 0.1), flow, viscosity=5e-3)
    motion = moved(smoke, frames=2, fps=2, substeps=100)
    v = motion.velocities[-1]
    largest = v.abs().max()
    across = max(float(v[..., 0].mean(-2).abs().max()), float(v[..., 1].mean(-1).abs().max()))
    # What the three cells next to a wall say about the velocity at the wall: a quadratic through them.
    near = torch.tensor([1.875, -1.25, 0.375], dtype=v.dtype)
    sides = (v[..., :, :3, 0], v[..., :, -3:, 0].flip(-1), v[..., :3, :, 1].mT, v[..., -3:, :, 1].mT.flip(-1))
    through = max(float((side @ near).abs().max()) for side in sides)
    total = motion.densities.sum((-1, -2))
    return [
        small("closed box", "mean flow across any line / largest", across / float(largest), 1e-12),
        small("closed box", "velocity through walls / largest", through / float(largest), 2e-3),
        relative("closed box", "total smoke after 100 steps", float(total[0]), float(total[-1]), 1e-3),
    ]


def transport() -> list[Fact]:
    """Uniform flow carries a puff of smoke across a periodic box, twice as fast up as right, and back to its place."""
    size = (64, 64)
    puff = blob(size, (0.5, 0.5), 0.08)
    smoke = Smoke("smoke", size, puff, (1.0, 2.0), boundary=Periodic())
    _, half, back = moved(smoke, frames=3, fps=2, substeps=45).densities
    across = puff.roll(size[1] // 2, -1)
    return [
        small("transport", "half a period on / there", float((half - across).norm() / puff.norm()), 5e-3),
        small("transport", "a period on / itself", float((back - puff).norm() / puff.norm()), 5e-3),
        relative("transport", "total smoke", float(puff.sum()), float(back.sum()), 1e-12),
    ]


def order_in_time() -> list[Fact]:
    """Random vortices with viscosity and buoyancy: errors fall with the square of the step."""
    size, steps, facts = (48, 48), (4, 8, 16, 32, 128), []
    flow, puff = random_flow(size, seed=3, shortest=24.0), blob(size, (0.45, 0.55), 0.15)
    for label, boundary in BOUNDARIES:
        smoke = Smoke("smoke", size, puff, flow, viscosity=0.01, buoyancy=1.0, boundary=boundary)
        ends = [moved(smoke, frames=2, fps=4.0, substeps=n).velocities[-1] for n in steps]
        errors = np.array([float((end - ends[-1]).norm()) for end in ends[:-1]])
        order = fitted_order(1.0 / np.array(steps[:-1]), errors)
        facts.append(Fact("order in time", f"smoke, {label}", 2.0, order, abs(order - 2.0), 0.25))
    return facts


def buoyant_rise() -> list[Fact]:
    """Smoke that fills all space falls freely upward; in a closed box it is at rest, held by the pressure."""
    rate, density, duration = 3.0, 0.7, 0.5
    facts = []
    for label, boundary in BOUNDARIES:
        smoke = Smoke("smoke", (16, 24), density, buoyancy=rate, boundary=boundary)
        v = moved(smoke, frames=2, fps=1 / duration, substeps=10).velocities[-1]
        expected = rate * density * duration * (label == "periodic")
        error = float((v - torch.tensor([0.0, expected], dtype=v.dtype)).abs().max()) / (rate * density * duration)
        got = float(v[..., 1].mean())
        facts.append(Fact("buoyancy", f"{label}: uniform smoke's velocity [m/s]", expected, got, error, 1e-12))
    return facts


def smoke_gradients() -> list[Fact]:
    """Adjoints of 100 steps in velocity, density, viscosity and buoyancy against central differences."""
    from gradsim.check.gradients import check_parameter, gradients  # there this function is called

    size, frames = (16, 20), 5
    values = {
        "density": blob(size, (0.4, 0.4), 0.15),
        "velocity": random_flow(size, seed=4, shortest=6.0),
        "viscosity": torch.tensor(1e-3, dtype=torch.float64),
        "buoyancy": torch.tensor(2.0, dtype=torch.float64),
    }
    weights = random_flow(size, seed=5, shortest=0.0, batch=(2, frames))

    def loss_in(boundary: Boundary) -> Callable[[dict[str, torch.Tensor]], torch.Tensor]:
        def loss(p: dict[str, torch.Tensor]) -> torch.Tensor:
            smoke = Smoke("smoke", size, p["density"], p["velocity"], p["viscosity"], p["buoyancy"], boundary)
            motion = moved(smoke, frames=frames, substeps=25)
            seen = (motion.densities * weights[0, ..., 0]).sum((-1, -2, -3))
            return seen + 0.1 * (motion.velocities * weights[1]).sum((-1, -2, -3, -4))

        return loss

    facts = []
    for label, boundary in BOUNDARIES:
        loss = loss_in(boundary)
        found = gradients(loss, values)
        facts += [check_parameter(loss, values, name, found[name], f"smoke, {label}") for name in values]
    return facts


CHECKS = (
    Check("Taylor-Green decay", taylor_green),
    Check("divergence of smoke", no_divergence),
    Check("smoke in a closed box", closed_box),
    Check("transport of smoke", transport),
    Check("order in time of smoke", order_in_time),
    Check("buoyancy of smoke", buoyant_rise),
)
