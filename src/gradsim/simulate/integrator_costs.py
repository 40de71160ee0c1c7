"""What integrators cost for the same accuracy: steps that stability and accuracy need, and the work of a step."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gradsim.scene.arguments import checked_number
from gradsim.scene.errors import InvalidInput
from gradsim.scene.integrators import ImplicitMidpoint, Integrator, Midpoint, Verlet
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.engine.implicit_system import check_implicit, implicit_evaluations
from gradsim.simulate.stability import stable_step

CANDIDATES: tuple[Integrator, ...] = (Verlet(), Midpoint(), ImplicitMidpoint())


class IntegratorCost(NamedTuple):
    """What one integrator costs in a second of simulated time.

    Example:
        `cheapest = gs.compare_integrators(scene, frequency=5.0)[0]; print(cheapest.integrator, cheapest.limit)`
    """

    integrator: Integrator
    steps: float  # a second
    evaluations: float  # of the forces a second, or work that takes as long
    limit: str  # what needs so many steps


def compare_integrators(scene: Scene, frequency: float, *, accuracy: float = 0.01) -> tuple[IntegratorCost, ...]:
    """Returns the costs of `Verlet()`, `Midpoint()` and `ImplicitMidpoint()` for a scene, the cheapest first.

    Explicit rules need steps that are stable for the fastest oscillation of the mesh, whether it matters or not.
    `ImplicitMidpoint()` needs only those that resolve what matters, each at the price of many evaluations. Integrators
    that do not support the scene are left out. Contact needs v dt <= delta / 8 at the speed v of an impact with each.

    Example:
        `gs.compare_integrators(scene, frequency=5.0)[0].integrator`

    Args:
        scene: The scene; the largest stiffness of a batch counts.
        frequency: Highest frequency of the motion that matters [Hz].
        accuracy: Error of a modulus that a fit of this frequency may have, relative.
    """
    frequency = checked_number("frequency", frequency, above=0.0)
    accuracy = checked_number("accuracy", accuracy, above=0.0)
    with torch.no_grad():
        compiled = compile_scene(scene)
        costs = [_cost(compiled, own, frequency, accuracy) for own in CANDIDATES if _supports(compiled, own)]
    return tuple(sorted(costs, key=lambda cost: cost.evaluations))


def _supports(compiled: CompiledScene, integrator: Integrator) -> bool:
    if integrator.carries:
        return "joint" not in compiled.topology.state_layout
    if not integrator.implicit:
        return True
    try:
        check_implicit(compiled.topology, compiled.device)
    except InvalidInput:
        return False
    return bool(compiled.topology.state_layout)


def _cost(compiled: CompiledScene, integrator: Integrator, frequency: float, accuracy: float) -> IntegratorCost:
    needed = 2.0 * math.pi * frequency * math.sqrt(MODULUS_ERRORS[type(integrator)] / accuracy)
    stable = stable_step(compiled, integrator)
    limit = f"accuracy at {frequency:g} Hz"
    if 1.0 / stable.dt > needed:
        needed, limit = 1.0 / stable.dt, f"stability: {stable.reason} of '{stable.body}'"
    work = implicit_evaluations(compiled.topology) if integrator.implicit else integrator.evaluations
    return IntegratorCost(integrator, needed, needed * work, limit)


MODULUS_ERRORS = {Verlet: 1 / 12, Midpoint: 1 / 3, ImplicitMidpoint: 1 / 6}  # that a fit of w has, over (w dt)^2
