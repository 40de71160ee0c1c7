"""Base inertial parameters: the combinations of masses, centres and inertias that a motion can depend on.

The Lagrangian of a body is linear in the mass, the first moment of mass and the inertia about the origin of each link.
Columns of that linear map, at random states, that depend on others belong to parameters that act only in combination
(Gautier and Khalil 1990).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.articulated_motion import LinkMotion
from gradsim.scene.errors import WrongType
from gradsim.scene.joints import Fixed, Free, Spherical, Universal, is_scalar
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.batcher import SceneBatcher
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.simulate import initial_trajectory
from gradsim.simulate.state.articulated import link_mass

STATES = 20  # random ones for each parameter
SMALLEST = 1e-8  # part of a column that no other column explains, and coefficient that is shown
MOMENTS = ("xx", "yy", "zz", "yz", "zx", "xy")
NAMES = ("mass", *(f"moment {axis}" for axis in "xyz"), *(f"inertia {axes}" for axes in MOMENTS))


@dataclass(frozen=True)
class BaseParameter:
    """A combination of inertial parameters that a motion can determine.

    Example:
        `gs.base_parameters(gs.Articulated("arm", {"rod": gs.Link(gs.Revolute(), mass=1.0)}))[0].value`

    Args:
        terms: Coefficients by link and parameter: "mass", "moment x" (mass times centre), "inertia xx" (about the
            link's origin, in its axes), ...
        value: Of the body [kg], [kg m] or [kg m^2].
    """

    terms: dict[tuple[str, str], float]
    value: float

    def __str__(self) -> str:
        text = ""
        for (link, name), factor in self.terms.items():
            size = "" if abs(factor) == 1.0 else f"{abs(factor):.4g} "
            text += f"{' - ' if factor < 0.0 else ' + '}{size}{link} {name}"
        return f"{text.removeprefix(' + ')} = {self.value:.6g}"


def base_parameters(body: Articulated, gravity: Any = (0.0, -9.81, 0.0)) -> tuple[BaseParameter, ...]:
    """Returns the base inertial parameters of an articulated body.

    Motion under known forces determines these and nothing else: two bodies with equal ones move equally. Without known
    forces it determines only their ratios.

    Example:
        `gs.base_parameters(gs.Articulated("arm", {"rod": gs.Link(gs.Revolute(), mass=1.0)}))`

    Args:
        body: With numbers as quantities, such as `fit.scene["arm"]`.
        gravity: Acceleration [m/s^2], [3]; zero for a robot in a horizontal plane.
    """
    if not isinstance(body, Articulated):
        raise WrongType("body", type(body).__name__, "must be a gs.Articulated")
    names = [
        name for name, link in reversed(list(body.links.items())) if link.mass is not None or link.density is not None
    ]
    keys = [(name, parameter) for name in names for parameter in NAMES]
    order = sorted(range(len(keys)), key=lambda k: keys[k][1] == "mass")  # combinations are named by moments first
    matrix = _lagrangian(body, names, np.asarray(gravity, dtype=float))[:, order]
    batcher = compile_scene(Scene([body])).batcher
    values = np.concatenate([_parameters(body.links[name], batcher) for name in names])[order]
    return tuple(_combinations(matrix, [keys[k] for k in order], values))


def _combinations(matrix: np.ndarray, keys: list[tuple[str, str]], values: np.ndarray) -> list[BaseParameter]:
    """Returns one combination for each column that those before it do not explain."""
    chosen: list[int] = []
    rest: dict[int, np.ndarray] = {}
    scale = np.linalg.norm(matrix, axis=0).max()
    for k, column in enumerate(matrix.T):
        basis = matrix[:, chosen]
        found = np.linalg.lstsq(basis, column, rcond=None)[0] if chosen else np.zeros(0)
        if np.linalg.norm(column - basis @ found) > SMALLEST * scale:
            chosen.append(k)
        else:
            rest[k] = found
    results = []
    for place, k in enumerate(chosen):
        terms = {keys[k]: 1.0}
        for other, found in rest.items():
            if place < len(found) and abs(found[place]) > SMALLEST:
                terms[keys[other]] = float(found[place])
        results.append(BaseParameter(terms, float(sum(c * values[keys.index(key)] for key, c in terms.items()))))
    return results


def _parameters(link: Link, batcher: SceneBatcher) -> np.ndarray:
    """Returns mass, first moment and inertia about the origin of a link, [10]."""
    mass, center, inertia = (part[0, 0].cpu().numpy() for part in link_mass(link, batcher))
    about = inertia + mass * (center @ center * np.eye(3) - np.outer(center, center))
    return np.concatenate([[mass], mass * center, about.ravel()[[0, 4, 8, 5, 6, 1]]])


def _lagrangian(body: Articulated, names: list[str], gravity: np.ndarray) -> np.ndarray:
    """Returns the Lagrangian at random states less its mean, as a linear function of the parameters of some links."""
    random = np.random.default_rng(0)
    count = STATES * len(names)
    links = {name: replace(link, joint=_random_joint(link.joint, random, count)) for name, link in body.links.items()}
    scene = Scene([replace(body, links=links)])
    motion = initial_trajectory(scene)[body.name]
    parts = np.concatenate([_link_terms(motion.link(name), gravity) for name in names], 1)
    return np.asarray(parts - parts.mean(0))


def _random_joint(joint: Any, random: np.random.Generator, count: int) -> Any:
    """Returns a joint in random states, one for each world of a batch."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.as_tensor(random.normal(size=(count, *shape)))

    if is_scalar(joint):
        return replace(joint, **{joint.coordinate: normal(), "rate": normal()})
    if isinstance(joint, Free):
        pose = {"displacement": normal(3), "rotation": normal(4)}
        return replace(joint, **pose, velocity=normal(3), angular_velocity=normal(3))
    if isinstance(joint, Spherical):
        return replace(joint, rotation=normal(4), angular_velocity=normal(3))
    if isinstance(joint, Universal):
        return replace(joint, angles=normal(2), rates=normal(2))
    assert isinstance(joint, Fixed)
    return joint


def _link_terms(link: LinkMotion, gravity: np.ndarray) -> np.ndarray:
    """Returns the Lagrangian of a link at all states as a linear function of its parameters, [S, 10]."""
    q = link.rotation[:, 0]
    v, w = (rotate(q, x[:, 0], back=True).numpy() for x in (link.velocity, link.angular_velocity))
    down = rotate(q, torch.as_tensor(gravity).expand(len(q), 3), back=True).numpy()
    squares = 0.5 * np.stack([w[:, 0] ** 2, w[:, 1] ** 2, w[:, 2] ** 2], -1)
    products = np.stack([w[:, 1] * w[:, 2], w[:, 2] * w[:, 0], w[:, 0] * w[:, 1]], -1)
    mass = 0.5 * (v**2).sum(-1) + link.position[:, 0].numpy() @ gravity
    return np.concatenate([mass[:, None], np.cross(v, w) + down, squares, products], 1)
