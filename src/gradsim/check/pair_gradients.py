"""Gradients through collisions, against differences with large steps, over random scenes.

A rigid body is thrown on another, on a cloth or on a soft body, which are free to move. Positions after the collision
are differentiated in the thrown body's velocity and mass, and in stiffness and friction of the pair, along a random
direction in their logarithms. Friction is regularized or, between rigid bodies, sticking.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from gradsim.check.gradcheck import Values
from gradsim.check.result import CheckResult
from gradsim.datasets import objects
from gradsim.scene import meshes, surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.body import Body
from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Contact, Membrane, NeoHookean
from gradsim.scene.meshes import TriMesh
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate

SCENES = 16
PAIRS = ("two boxes", "two knots")
NODES = {"box and cloth": False, "ball and soft body": True}
TOLERANCES = {1e-3: 2e-3, 1e-4: 2e-4, 1e-5: 1e-5}  # of the median, by relative step
FRICTIONS: dict[str, dict[str, Any]] = {"regularized": {"kf": 200.0}, "sticking": {"friction": Sticking()}}
DELTA = 2e-3  # [m]
NAMES = ("speed", "mass", "stiffness", "friction")


@functools.cache
def pair_mesh(name: str) -> TriMesh:
    """Returns the mesh of which two collide, about 20 cm large."""
    if name == "two boxes":
        return surfaces.box((0.2, 0.16, 0.24))
    knot = objects.mesh("knot")
    scaled = knot.vertices * (0.24 / float((knot.vertices.max(0) - knot.vertices.min(0)).max()))
    return TriMesh(scaled, knot.faces)


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


def random_hit(soft: bool, factors: Values) -> Scene:
    """Returns random collisions of a box with a cloth, or of a ball with a soft body, as a batch."""
    generator = torch.Generator().manual_seed(6)

    def uniform(*shape: int) -> torch.Tensor:
        return 2.0 * torch.rand(SCENES, *shape, generator=generator, dtype=torch.float64) - 1.0

    rotation, place, spin = uniform(4), 0.03 * uniform(3), 3.0 * uniform(3)
    velocity = torch.tensor([0.3, 1.5, 0.1], dtype=torch.float64) + 0.2 * uniform(3)
    start: dict[str, Any] = {"mass": 0.4 * factors["mass"], "velocity": velocity * factors["speed"][:, None]}
    start |= {"rotation": rotation, "position": place, "angular_velocity": spin}
    other: Body
    if soft:
        thrown: Rigid = Ball("thrown", radius=0.1, **start)
        material = NeoHookean(4e3, 4e3, 3.0)
        other = Soft("other", meshes.tet_box(0.2, (2, 2, 2)), 60.0, material=material, position=(0.0, 0.24, 0.0))
    else:
        thrown = Rigid("thrown", surfaces.box((0.2, 0.16, 0.18)), **start)
        other = Cloth(
            "other", meshes.grid(0.4, 6), 0.5, material=Membrane(100.0, 100.0, 0.1), position=(0.0, 0.19, 0.0)
        )
    law: dict[str, Any] = {"ke": 200.0 * factors["stiffness"], "mu": 0.4 * factors["friction"], "thickness": 0.004}
    touch = NodeContact("touch", body="other", rigid="thrown", kd=0.1, kf=1.0, delta=0.004, **law)
    return Scene([thrown, other], gravity=(0.0, 0.0, 0.0), forces=[touch])


def final_place(name: str, friction: str, logarithms: torch.Tensor) -> torch.Tensor:
    """Returns a weighted sum of the final positions [m], [16]; logarithms of the factors are [16, 4]."""
    factors = dict(zip(NAMES, logarithms.exp().unbind(-1), strict=True))
    if name in NODES:
        run = simulate(random_hit(NODES[name], factors), frames=2, fps=5.0, substeps=1000)
    else:
        run = simulate(random_collision(pair_mesh(name), friction, factors), frames=2, fps=2.0, substeps=5000)
    thrown, other = run["thrown"].position[..., -1, :], run["other"].position[..., -1, :]
    weights = torch.tensor([[1.0, 0.3, 0.5], [0.7, 0.2, -0.4]], dtype=torch.float64)
    return thrown @ weights[0] + other @ weights[1]


def check_pair_gradients(names: tuple[str, ...] = (*PAIRS, *NODES)) -> list[CheckResult]:
    """Checks gradients against differences, and gradients at parameters 1e-3 apart, in the median over the scenes."""
    cases = [(name, friction) for name in names for friction in (FRICTIONS if name in PAIRS else ("regularized",))]
    return [result for name, friction in cases for result in _check_collisions(name, friction)]


def _check_collisions(name: str, friction: str) -> list[CheckResult]:
    topic, results = f"{name} collide, {friction} friction, median of {SCENES}", []
    generator = torch.Generator().manual_seed(9)
    direction, shift = (torch.randn(SCENES, len(NAMES), generator=generator, dtype=torch.float64) for _ in range(2))

    def gradient(at: torch.Tensor) -> torch.Tensor:
        leaf = at.clone().requires_grad_()
        (found,) = torch.autograd.grad(final_place(name, friction, leaf).sum(), leaf)
        return found

    adjoint = gradient(torch.zeros(SCENES, len(NAMES), dtype=torch.float64))
    size = adjoint.norm(dim=-1)
    for step, tolerance in TOLERANCES.items():
        with torch.no_grad():
            up, down = (final_place(name, friction, sign * step * direction) for sign in (1.0, -1.0))
        errors = ((up - down) / (2 * step) - (adjoint * direction).sum(-1)).abs() / size
        median = float(errors.median())
        results.append(CheckResult(topic, f"difference with step {step:g}", 0.0, median, median, tolerance))
    cosine = float(torch.cosine_similarity(gradient(1e-3 * shift), adjoint, dim=-1).median())
    title = "cosine of gradients at parameters 1e-3 apart"
    return [*results, CheckResult(topic, title, 1.0, cosine, 1.0 - cosine, 0.01)]
