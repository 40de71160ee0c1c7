"""Random valid scenes that need every native header: all bodies, materials, forces, friction laws and integrators.

Meshes are of a few shapes, so that distance grids and mass properties are computed once; everything else is random.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch

import gradsim as gs

CAMERA = gs.Camera(eye=(0.0, 1.0, 3.5), target=(0.0, 0.5, 0.0), fov=45)
Parts = dict[str, Any]  # arguments of a scene


def _place(chance: Random, x: float = 0.0) -> dict[str, Any]:
    velocity = (chance.uniform(-0.5, 0.5), chance.uniform(-1.0, 1.0), 0.0)
    return {"position": (x, chance.uniform(0.1, 0.9), 0.0), "velocity": velocity}


def _signal(chance: Random, *shape: int) -> gs.Signal:
    """Small values at a few times."""
    return gs.Signal(np.random.default_rng(chance.randrange(2**31)).normal(0.0, 0.05, (chance.randint(2, 5), *shape)))


def _friction(chance: Random) -> Any:
    return chance.choice((gs.Regularized(), gs.Regularized(), gs.Sticking()))


def _sometimes(chance: Random, probability: float, make: Callable[[], Parts]) -> Parts:
    return make() if chance.random() < probability else {}


SHAPES = (
    gs.meshes.box(0.3),
    gs.meshes.icosphere(0.2, 1),
    gs.meshes.cylinder(0.1, 0.3, 8),
    gs.meshes.cone(0.2, 0.3, 7),
    gs.meshes.torus(0.2, 0.07, 5, 6),
)


def rigid(chance: Random, mass: Any) -> Parts:
    """One rigid body, with pushes, spin, drag and perhaps contact parameters of its own."""
    pushes = [
        gs.Push(force=(1.0, 0.0, 0.3), point=(0.0, 0.1, 0.0)),
        gs.Push(impulse=(0.1, 0.0, 0.0), start=0.001, end=chance.choice((0.001, 0.004))),
    ]
    more: Parts = {"pushes": pushes[: chance.randint(0, 2)], "face_samples": chance.random() < 0.3}
    more |= _sometimes(chance, 0.3, lambda: {"contact": gs.Contact(ke=2e3, restitution=chance.uniform(0.2, 0.9))})
    more |= _sometimes(chance, 0.3, lambda: {"drag": gs.Drag(linear=0.1, quadratic=chance.uniform(0.0, 0.1))})
    more |= _sometimes(chance, 0.2, lambda: {"motion": gs.Motion(displacement=_signal(chance, 3))})
    turn = {"angular_velocity": (chance.uniform(-3.0, 3.0), 1.0, 0.0)}
    return {"bodies": [gs.Rigid("body", chance.choice(SHAPES), mass, **_place(chance), **turn, **more)]}


def pair(chance: Random, mass: Any) -> Parts:
    """Rigid bodies that touch each other, perhaps connected."""
    ball = gs.Ball("ball", radius=chance.uniform(0.05, 0.2), mass=0.5, drag=gs.Drag(quadratic=0.1), **_place(chance))
    others = [gs.Rigid(f"other{k}", chance.choice(SHAPES), 1.0, **_place(chance, 0.1 * k)) for k in range(2)]
    joined = gs.Connection("pin", "body", chance.choice(("ball", "")), (0.0, 0.1, 0.0), stiffness=100.0)
    law = gs.Contact(ke=1e3, friction=_friction(chance))
    more: Parts = _sometimes(chance, 0.3, lambda: {"forces": [joined]})
    more |= _sometimes(chance, 0.3, lambda: {"pairs": {"body-ball": law}})
    return {"bodies": [*rigid(chance, mass)["bodies"], ball, *others[: chance.randint(0, 2)]], **more}


MATERIALS: tuple[Callable[[], Any], ...] = (
    lambda: gs.NeoHookean(mu=2e3, lam=2e3, damping=1.0),
    lambda: gs.NeoHookean.from_young(young=5e3, poisson=0.4),
    lambda: gs.StVenantKirchhoff(mu=2e3, lam=2e3, damping=1.0),
    lambda: gs.StandardNeoHookean(mu=2e3, lam=2e3),
    lambda: gs.MooneyRivlin(c10=1e3, c01=2e2, bulk=5e3),
)


def soft(chance: Random, mass: Any) -> Parts:
    """An elastic solid, perhaps with smoothed elements, fibres, Rayleigh damping, self contact, or held by a clamp."""
    mesh = gs.meshes.tet_box(chance.uniform(0.2, 0.5), chance.randint(1, 3))
    if chance.random() < 0.4:
        more: Parts = {"element": gs.SmoothedTet(), "material": MATERIALS[0]()}
    else:
        more = {"material": chance.choice(MATERIALS)()}
        more |= _sometimes(chance, 0.3, lambda: {"fibres": gs.Fibres(stiffness=1e3, direction=(1.0, 1.0, 0.0))})
        more |= _sometimes(chance, 0.3, lambda: {"rayleigh": gs.Rayleigh(mass=0.5, stiffness=1e-4)})
    if isinstance(more["material"], gs.NeoHookean):
        more |= _sometimes(chance, 0.5, lambda: {"actuation": _signal(chance)})
    body = gs.Soft("body", mesh, mass=0.1 * mass, **_place(chance), **more, **_held(chance))
    return _with_rigid(chance, body)


def cloth(chance: Random, mass: Any) -> Parts:
    """A sheet with bending and air drag, perhaps with self contact, or held by a clamp."""
    more: Parts = _sometimes(chance, 0.3, lambda: {"folding": 0.1})
    more |= _sometimes(chance, 0.3, lambda: {"actuation": _signal(chance)})
    more |= _sometimes(chance, 0.7, lambda: {"bending": gs.Bending(stiffness=1e-3, damping=1e-5)})
    more |= _sometimes(chance, 0.7, lambda: {"drag": 0.1, "lift": 0.1})
    mesh = gs.meshes.grid(0.6, chance.randint(1, 5))
    body = gs.Cloth("body", mesh, mass=0.05 * mass, **_place(chance), **more, **_held(chance))
    return _with_rigid(chance, body)


def _held(chance: Random) -> Parts:
    """Pinned nodes, which may move, a force and self contact; each or none."""
    more: Parts = _sometimes(chance, 0.3, lambda: {"self_contact": True})
    more |= _sometimes(chance, 0.3, lambda: {"force": _signal(chance, 3)})
    more |= _sometimes(chance, 0.4, lambda: {"pinned": [0, 2]})
    if "pinned" in more:
        more |= _sometimes(chance, 0.5, lambda: {"motion": gs.Motion(displacement=_signal(chance, 3))})
    return more


def _with_rigid(chance: Random, body: Any) -> Parts:
    """Adds rigid bodies that are tethered to a body of nodes or touch it, or none."""
    if chance.random() < 0.3:
        return {"bodies": [body]}
    ball = gs.Ball("ball", radius=0.1, mass=0.3, **_place(chance, 0.2))
    other = gs.Rigid("other", chance.choice(SHAPES), 0.5, **_place(chance, 0.3))
    others = chance.choice(((ball,), (other,), (ball, other)))
    first, last = others[0].name, others[-1].name
    count, thickness = chance.randint(1, 3), chance.choice((0.0, 0.01))
    rope = gs.Tether("rope", "body", list(range(count)), first, stiffness=20.0, damping=0.1, rest_length=0.1)
    touch = gs.NodeContact("touch", "body", last, ke=50.0, thickness=thickness, faces=chance.random() < 0.5)
    return {"bodies": [body, *others], "forces": chance.choice(((rope,), (touch,), (rope, touch), ()))}


def springs(chance: Random, mass: Any) -> Parts:
    """A chain of springs."""
    count = chance.randint(2, 20)
    points = np.linspace((0.0, 1.0, 0.0), (0.6, 1.0, 0.0), count)
    edges = np.stack([np.arange(count - 1), np.arange(1, count)], 1)
    more = _sometimes(chance, 0.5, lambda: {"pinned": [0]})
    return {
        "bodies": [
            gs.Springs(
                "body", points, edges, mass=0.05 * mass, stiffness=chance.uniform(20.0, 60.0), damping=0.1, **more
            )
        ]
    }


def pendulum(chance: Random, mass: Any) -> Parts:
    """One or two points on rods."""
    pivot, drag = (0.0, 1.2, 0.0), chance.choice((0.0, 0.1))
    angle = chance.uniform(-2.0, 2.0)
    if chance.random() < 0.5:
        return {"bodies": [gs.Pendulum("body", chance.uniform(0.4, 0.8), mass, angle, pivot=pivot, drag=drag)]}
    rods, masses = chance.choice((0.0, 0.3)), torch.as_tensor(mass)[..., None].expand(*np.shape(mass), 2)
    return {
        "bodies": [
            gs.DoublePendulum(
                "body", masses=masses, angles=(angle, 0.5), pivot=pivot, rod_masses=(rods, rods), drag=(drag, drag)
            )
        ]
    }


LINK = gs.meshes.box((0.05, 0.3, 0.05))
HAND = gs.meshes.icosphere(0.06, 1)


def arm(chance: Random, mass: Any) -> Parts:
    """Links in a chain or a tree, with joints of all kinds, which perhaps touch their surroundings and a ball."""
    joints = (
        lambda: gs.Revolute(angle=chance.uniform(-1.0, 1.0), damping=0.01, low=-0.5, high=0.5, friction=0.01),
        lambda: gs.Revolute(torque=gs.Signal((0.0, 0.1, 0.0)), target=0.2, gain=0.1, rate_gain=0.01, armature=0.01),
        lambda: gs.Prismatic(stiffness=20.0, damping=0.1),
        lambda: gs.Spherical(),
        lambda: gs.Universal(),
        lambda: gs.Fixed(),
    )
    touching = chance.random() < 0.4
    first = chance.choice((gs.Revolute(angle=0.4), gs.Revolute(angle=0.4), gs.Free()))
    links = {"first": gs.Link(first, mass=mass, mesh=LINK)}
    for k in range(chance.randint(0, 4)):
        more: Parts = {"collides": touching, "mesh": HAND if chance.random() < 0.3 else LINK}
        parent = chance.choice(list(links))
        links[f"link{k}"] = gs.Link(chance.choice(joints)(), parent, (0.0, -0.3, 0.0), mass=0.5, **more)
    body = gs.Articulated("body", links, position=(0.0, chance.uniform(0.3, 1.0), 0.0))
    ball = gs.Ball("ball", radius=0.1, mass=0.3, **_place(chance, 0.2))
    more = _sometimes(chance, 0.2, lambda: {"forces": [gs.Connection("pin", "body/first", "", stiffness=100.0)]})
    return {"bodies": [body, ball] if chance.random() < 0.4 else [body], **more}


KINDS = (rigid, pair, pair, soft, soft, cloth, springs, pendulum, arm, arm)


def random_scene(chance: Random, mass: Any = 1.0) -> gs.Scene:
    """A scene of one of the kinds, in some surroundings.

    Args:
        chance: Source of everything that is random.
        mass: Of one body [kg], [...]; several numbers make a batch of worlds.
    """
    belt = _sometimes(chance, 0.1, lambda: {"surface_velocity": (0.3, 0.0, 0.0)})
    ground = gs.Ground(ke=chance.uniform(1e3, 2e3), kd=5.0, mu=0.4, friction=_friction(chance), **belt)
    around: Parts = {"ground": ground if chance.random() < 0.9 else None, "camera": CAMERA}
    if chance.random() < 0.3:
        moving = _sometimes(chance, 0.3, lambda: {"motion": gs.Motion(displacement=_signal(chance, 3))})
        law: Parts = {"ke": 1e3, "friction": _friction(chance), **moving}
        shapes = (
            gs.StaticSphere(radius=0.3, **law),
            gs.StaticCapsule(radius=0.1, end=(0.0, 0.4, 0.0), **law),
            gs.StaticBox(size=(0.5, 0.2, 0.5), **law),
        )
        around["shapes"] = {f"obstacle{k}": chance.choice(shapes) for k in range(chance.randint(1, 2))}
    return gs.Scene(**chance.choice(KINDS)(chance, mass), **around)


STARTS = ("position", "velocity", "angular_velocity")  # of a body


def spread(chance: Random, scene: gs.Scene, worlds: int, dtype: torch.dtype) -> gs.Scene:
    """A batch of worlds in which the bodies of a scene start elsewhere, with other speeds."""
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    bodies = {body.name for body in scene.bodies}
    values = {}
    for path, value, spec in scene.quantities():
        body, _, name = path.rpartition(".")
        if body in bodies and name in STARTS and np.shape(value) == spec.shape == (3,):
            offsets = torch.randn(worlds, 3, generator=generator, dtype=torch.float64)
            values[path] = (torch.as_tensor(value) + 0.2 * offsets).to(dtype)
    return scene.with_values(values)


def random_integrator(chance: Random, scene: gs.Scene) -> gs.Integrator:
    """An integrator that advances a scene."""
    if any(isinstance(body, gs.Articulated) for body in scene.bodies):
        return chance.choice((gs.SymplecticEuler(), gs.Midpoint(), gs.RungeKutta4()))
    explicit = (gs.SymplecticEuler(), gs.SymplecticEuler(), gs.Verlet(), gs.Verlet(), gs.Midpoint(), gs.RungeKutta4())
    if all(isinstance(body, (gs.Soft, gs.Cloth, gs.Springs)) for body in scene.bodies):
        return chance.choice((*explicit, gs.ImplicitMidpoint(), gs.ImplicitMidpoint()))
    return chance.choice(explicit)
