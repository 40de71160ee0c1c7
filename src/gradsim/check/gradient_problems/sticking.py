"""Sticking friction of rigid bodies, balls and soft bodies on the ground, on static shapes and on each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene import meshes, surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Soft
from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Contact, Ground, NeoHookean
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere

_BOX = surfaces.box((0.3, 0.2, 0.25))


def _contact_values() -> Values:
    return {
        "ke": tensor(2e3),
        "friction": tensor(0.5),
        "delta": tensor(0.004),
        "normal": tensor([0.05, 1.0, -0.03]),
        "offset": tensor(0.01),
        "density": tensor(200.0),
    }


def _ground(p: Values, **damping: Any) -> Ground:
    contact: dict[str, Any] = {"ke": p["ke"], "mu": p["friction"], "delta": p["delta"], "friction": Sticking()}
    return Ground(**contact, **damping, normal=p["normal"], offset=p["offset"])


def _box_values() -> Values:
    return _contact_values() | {
        "kd": tensor(5.0),
        "position": tensor([0.02, 0.105, -0.01]),
        "rotation": tensor([0.02, 0.1, 0.01, 1.0]),
        "velocity": tensor([0.25, -0.3, 0.1]),
        "angular_velocity": tensor([0.3, 1.5, -0.2]),
        "center": tensor([0.01, -0.02, 0.015]),
        "size": tensor([0.3, 0.2, 0.25]),
        "gravity": tensor([2.0, -9.0, 1.0]),
    }


def _box_scene(p: Values) -> Scene:
    """Returns a box that lands on the ground, turns and slides on some corners and sticks to others."""
    names = ("center", "size", "position", "rotation", "velocity", "angular_velocity")
    own: Any = {name: p[name] for name in names}
    return Scene([Rigid("body", _BOX, p["density"], **own)], _ground(p, kd=p["kd"]), gravity=p["gravity"])


def _shape_values() -> Values:
    return _contact_values() | {
        "restitution": tensor(0.6),
        "rotation": tensor([0.1, 0.0, 0.3, 1.0]),
        "velocity": tensor([0.6, -1.0, 0.3]),
    }


def _shapes(p: Values) -> dict[str, StaticShape]:
    law: dict[str, Any] = {"ke": p["ke"], "mu": p["friction"], "friction": Sticking(stiffness=0.3, damping=0.3)}
    return {
        "hill": StaticSphere(**law, kd=3.0, radius=0.3, position=(0.15, -0.27, 0.1)),
        "rod": StaticCapsule(
            **law, restitution=p["restitution"], radius=0.1, start=(-0.1, 0.0, -0.5), end=(-0.2, 0.0, 0.5)
        ),
        "block": StaticBox(**law, kd=3.0, size=0.2, position=(0.1, -0.06, -0.12), rotation=(0.1, 0.3, 0.0, 1.0)),
        "floor": _ground(p, restitution=p["restitution"]),
    }


def _shapes_scene(p: Values) -> Scene:
    """Returns a box that hits the ground and shapes, with one regularized friction among them."""
    body = Rigid(
        "body",
        _BOX,
        p["density"],
        position=(0.0, 0.14, -0.05),
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=(1.0, 2.0, -3.0),
        face_samples=True,
        contact={"hill": Contact(ke=p["ke"], kd=3.0, kf=20.0, mu=p["friction"])},
    )
    return Scene([body], shapes=_shapes(p))


def _ball_values() -> Values:
    return _contact_values() | {
        "restitution": tensor(0.6),
        "radius": tensor(0.1),
        "center": tensor([0.01, -0.02, 0.015]),
        "position": tensor([0.0, 0.105, -0.02]),
        "velocity": tensor([0.5, -0.6, -0.4]),
        "angular_velocity": tensor([1.0, 2.0, -3.0]),
    }


def _ball_scene(p: Values) -> Scene:
    """Returns a ball that starts to roll on the ground and on shapes."""
    own: Any = {name: p[name] for name in ("radius", "center", "position", "velocity", "angular_velocity")}
    return Scene([Ball("body", p["density"], **own)], shapes=_shapes(p))


def _soft_values() -> Values:
    return _contact_values() | {
        "kd": tensor(1.0),
        "young": tensor(4e4),
        "position": tensor([0.0, 0.058, 0.0]),
        "velocity": tensor([0.3, -0.5, 0.1]),
    }


def _soft_scene(p: Values) -> Scene:
    """Returns a soft box that lands on the ground and on a block, slides and sticks."""
    body = Soft(
        "body",
        meshes.tet_box((0.2, 0.1, 0.15), (2, 1, 2)),
        p["density"],
        material=NeoHookean.from_young(p["young"], 0.3, 10.0),
        position=p["position"],
        velocity=p["velocity"],
        pinned=[0],
    )
    other = Soft(
        "other",
        meshes.tet_box(0.1, (1, 1, 1)),
        200.0,
        material=NeoHookean(1e4, 1e4),
        position=(0.5, 0.06, 0.0),
        velocity=p["velocity"],
    )
    law: dict[str, Any] = {"ke": p["ke"], "kd": 1.0, "mu": p["friction"], "delta": p["delta"]}
    block = StaticBox(**law, size=(0.1, 0.1, 0.1), position=(0.18, -0.03, 0.1), rotation=(0.1, 0.3, 0.0, 1.0))
    return Scene([body, other], _ground(p, kd=p["kd"]), shapes={"block": block})


def _pair_values() -> Values:
    return {
        "ke": tensor(2e4),
        "kd": tensor(60.0),
        "friction": tensor(0.5),
        "delta": tensor(0.002),
        "density": tensor(400.0),
        "size": tensor([0.2, 0.1, 0.16]),
        "center": tensor([0.01, -0.02, 0.015]),
        "base_mass": tensor(3.0),
        "position": tensor([0.02, 0.148, -0.01]),
        "rotation": tensor([0.02, 0.1, 0.01, 1.0]),
        "velocity": tensor([0.25, -0.1, 0.1]),
        "angular_velocity": tensor([0.1, 0.8, -0.1]),
        "gravity": tensor([1.0, -9.0, 0.5]),
    }


def _pair_scene(p: Values) -> Scene:
    """Returns a box that lands on a turning box, slides and sticks."""
    names = ("size", "center", "position", "rotation", "velocity", "angular_velocity")
    own: Any = {name: p[name] for name in names}
    law: dict[str, Any] = {"ke": p["ke"], "kd": p["kd"], "mu": p["friction"], "delta": p["delta"]}
    contact = Contact(**law, friction=Sticking())
    base = Rigid("base", surfaces.box((0.4, 0.1, 0.3)), mass=p["base_mass"], position=(0.0, 0.049, 0.0))
    top = Rigid("top", _BOX, p["density"], contact={"base": contact}, **own)
    ground = Ground(ke=4e3, kd=20.0, mu=p["friction"], delta=p["delta"], friction=Sticking())
    return Scene([base, top], ground, gravity=p["gravity"])


def _several_values() -> Values:
    names = ("ke", "friction", "delta", "density", "gravity")
    changed = {"velocity": tensor([0.2, -0.1, -0.1]), "spin": tensor([1.0, 2.0, -3.0])}
    own = {name: value for name, value in _pair_values().items() if name in names}
    return own | changed | {"ke": tensor(3e3), "restitution": tensor(0.5), "radius": tensor(0.05)}


def _several_scene(p: Values) -> Scene:
    """Returns a ball that rolls from a box to a cone, which slides on the box; all move freely."""
    law: dict[str, Any] = {"ke": p["ke"], "mu": p["friction"], "delta": p["delta"], "friction": Sticking(0.3, 0.3)}
    box = Rigid("box", surfaces.box((0.3, 0.1, 0.3)), mass=2.0, contact=Contact(**law, kd=3.0))
    ball = Ball(
        "ball",
        p["density"],
        radius=p["radius"],
        position=(-0.04, 0.099, 0.02),
        velocity=p["velocity"],
        angular_velocity=p["spin"],
        contact=Contact(**law, restitution=p["restitution"]),
    )
    cone = Rigid("cone", surfaces.cone(0.06, 0.12), p["density"], position=(0.06, 0.1085, 0.0), velocity=p["velocity"])
    return Scene([box, ball, cone], gravity=p["gravity"])


RIGID = "rigid body"
STICKING_BOX = GradientProblem("box with sticking friction", RIGID, _box_scene, _box_values)
STICKING_SHAPES = GradientProblem("sticking friction on shapes", RIGID, _shapes_scene, _shape_values)
STICKING_BALL = GradientProblem("ball with sticking friction", RIGID, _ball_scene, _ball_values)
STICKING_SOFT = GradientProblem("soft bodies with sticking friction", "deformable object", _soft_scene, _soft_values)
STICKING_PAIR = GradientProblem("box that sticks to a box", RIGID, _pair_scene, _pair_values)
STICKING_BODIES = GradientProblem("ball and cone that stick to a box", RIGID, _several_scene, _several_values)

# Boxes that tumble with sticking friction for 1 s, for gradients that an optimizer can use.
TUMBLING_COUNT, TUMBLING_DELTA = 16, 2e-3  # worlds, [m]
TUMBLING_PARAMETERS = ("speed", "mass", "mu", "ke")  # relative to their values in the scene, [16] each


def _tumbling_box(p: Values, height: float, **contact: Any) -> Rigid:
    """Returns a box in random orientations about a height [m], thrown down and spinning, one for each world."""
    random = np.random.default_rng(3)
    rotation, rise = random.uniform(-1, 1, (TUMBLING_COUNT, 4)), random.uniform(-1, 1, TUMBLING_COUNT)
    velocity = random.uniform((0.6, -0.5, -0.3), (1.4, -0.5, 0.3), (TUMBLING_COUNT, 3))
    zero = np.zeros(TUMBLING_COUNT)
    return Rigid(
        "box",
        surfaces.box((0.2, 0.16, 0.24)),
        mass=p["mass"],
        position=tensor(np.stack([zero, height + 0.05 * rise, zero], 1)),
        rotation=tensor(rotation),
        velocity=tensor(velocity) * p["speed"][:, None],
        angular_velocity=tensor(random.uniform(-3, 3, (TUMBLING_COUNT, 3))),
        **contact,
    )


def tumbling_scene(p: Values) -> Scene:
    """Returns worlds with a box that tumbles on the ground."""
    law: dict[str, Any] = {"ke": 5e3 * p["ke"], "mu": 0.4 * p["mu"], "delta": TUMBLING_DELTA, "friction": Sticking()}
    return Scene([_tumbling_box(p, 0.3)], Ground(**law, kd=21.0))


def tumbling_pair_scene(p: Values) -> Scene:
    """Returns worlds with a box that tumbles over another one, which is free to move on the ground."""
    law: dict[str, Any] = {"mu": 0.4 * p["mu"], "delta": TUMBLING_DELTA, "friction": Sticking()}
    contact = {"base": Contact(ke=2e4 * p["ke"], kd=60.0, **law)}
    base = Rigid("base", surfaces.box((0.6, 0.2, 0.4)), mass=3.0, position=(0.1, 0.0995, 0.0))
    ground = Ground(ke=5e3 * p["ke"], kd=30.0, **law)
    return Scene([_tumbling_box(p, 0.5, contact=contact), base], ground)
