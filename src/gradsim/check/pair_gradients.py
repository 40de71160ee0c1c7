"""Gradients through collisions of rigid bodies, against differences with large steps, over random scenes.

A body is thrown on another that is free to move. Positions after the collision are differentiated in the thrown body's
velocity and mass, and in stiffness and friction of the pair, along a random direction in their logarithms. Friction is
regularized or sticking.
"""

from __future__ import annotations

from typing import Any

import torch

from gradsim.check.gradcheck import Values
from gradsim.check.result import CheckResult
from gradsim.datasets import objects
from gradsim.scene import surfaces
from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Contact
from gradsim.scene.meshes import TriMesh
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate

SCENES = 16
TOLERANCES = {1e-3: 2e-3, 1e-4: 2e-4, 1e-5: 1e-5}  # of the median, by relative step
FRICTIONS: dict[str, dict[str, Any]] = {"regularized": {"kf": 200.0}, "sticking": {"friction": Sticking()}}
DELTA = 2e-3  # [m]
NAMES = ("speed", "mass", "stiffness", "friction")


def pair_meshes() -> dict[str, TriMesh]:
    """Returns the meshes of which two collide, about 20 cm large."""
    knot = objects.mesh("knot")
    scaled = knot.vertices * (0.24 / float((knot.vertices.max(0) - knot.vertices.min(0)).max()))
    return {"two boxes": surfaces.box((0.2, 0.16, 0.24)), "two knots": TriMesh(scaled, knot.faces)}


def random_collision(mesh: TriMesh, friction: str, factors: Values) -> Scene:
    """Returns random collisions of two bodies of the same shape as a batch; `factors` scale what is differentiated."""
    generator = torch.Generator().manual_seed(5)

    def uniform(*shape: int) -> torch.Tensor:
        return 2.0 * torch.rand(SCENES, *shape, generator=generator, dtype=torch.float64) - 1.0

    rotations, places, spins = uniform(2, 4), uniform(3), uniform(3)
    offset = torch.tensor([-0.12, 0.30, 0.0], dtype=torch.float64)
    base = torch.tensor([0.6, -1.0, 0.0], dtype=torch.float64)
    velocity = base + torch.tensor([0.3, 0.0, 0.2], dtype=torch.float64) * uniform(3)
    along = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    velocity = velocity + along * velocity[..., :1] * (factors["speed"] - 1.0)[..., None]
    law: dict[str, Any] = {
        "ke": 1e5 * factors["stiffness"],
        "mu": 0.3 * factors["friction"],
        "delta": DELTA,
        "restitution": 0.6,
    }
    contact = Contact(**law, **FRICTIONS[friction])
    thrown = Rigid(
        "thrown",
        mesh,
        mass=factors["mass"],
        position=offset + torch.tensor([0.05, 0.0, 0.05], dtype=torch.float64) * places,
        rotation=rotations[:, 0],
        velocity=velocity,
        angular_velocity=2.0 * spins,
    )
    other = Rigid("other", mesh, mass=1.5, rotation=rotations[:, 1])
    return Scene([thrown, other], gravity=(0.0, 0.0, 0.0), pairs={"thrown-other": contact})


def final_place(mesh: TriMesh, friction: str, logarithms: torch.Tensor) -> torch.Tensor:
    """Returns a weighted sum of the final positions [m], [16]; logarithms of the factors are [16, 4]."""
    factors = dict(zip(NAMES, logarithms.exp().unbind(-1), strict=True))
    run = simulate(random_collision(mesh, friction, factors), frames=2, fps=2.0, substeps=5000)
    thrown, other = run["thrown"].position[..., -1, :], run["other"].position[..., -1, :]
    weights = torch.tensor([[1.0, 0.3, 0.5], [0.7, 0.2, -0.4]], dtype=torch.float64)
    return thrown @ weights[0] + other @ weights[1]


def check_pair_gradients(
    names: tuple[str, ...] = ("two boxes", "two knots"), frictions: tuple[str, ...] = tuple(FRICTIONS)
) -> list[CheckResult]:
    """Checks gradients against differences, and gradients at parameters 1e-3 apart, in the median over the scenes."""
    meshes = pair_meshes()
    return [
        result for name in names for friction in frictions for result in _check_collisions(name, meshes[name], friction)
    ]


def _check_collisions(name: str, mesh: TriMesh, friction: str) -> list[CheckResult]:
    topic, results = f"{name} collide, {friction} friction, median of {SCENES}", []
    generator = torch.Generator().manual_seed(9)
    direction, shift = (torch.randn(SCENES, len(NAMES), generator=generator, dtype=torch.float64) for _ in range(2))

    def gradient(at: torch.Tensor) -> torch.Tensor:
        leaf = at.clone().requires_grad_()
        (found,) = torch.autograd.grad(final_place(mesh, friction, leaf).sum(), leaf)
        return found

    adjoint = gradient(torch.zeros(SCENES, len(NAMES), dtype=torch.float64))
    size = adjoint.norm(dim=-1)
    for step, tolerance in TOLERANCES.items():
        with torch.no_grad():
            up, down = (final_place(mesh, friction, sign * step * direction) for sign in (1.0, -1.0))
        errors = ((up - down) / (2 * step) - (adjoint * direction).sum(-1)).abs() / size
        median = float(errors.median())
        results.append(CheckResult(topic, f"difference with step {step:g}", 0.0, median, median, tolerance))
    cosine = float(torch.cosine_similarity(gradient(1e-3 * shift), adjoint, dim=-1).median())
    title = "cosine of gradients at parameters 1e-3 apart"
    return [*results, CheckResult(topic, title, 1.0, cosine, 1.0 - cosine, 0.01)]
