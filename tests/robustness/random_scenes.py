"""Random valid scenes that need every native header: all bodies, forces between them, static shapes, friction laws."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import gradsim as gs

CAMERA = gs.Camera(eye=(0.0, 1.0, 3.5), target=(0.0, 0.5, 0.0), fov=45)
Parts = dict[str, Any]  # arguments of a scene


def _place(chance: Random, x: float = 0.0) -> dict[str, Any]:
    velocity = (chance.uniform(-0.5, 0.5), chance.uniform(-1.0, 1.0), 0.0)
    return {"position": (x, chance.uniform(0.1, 0.9), 0.0), "velocity": velocity}


SHAPES = (
    gs.meshes.box(0.3),
    gs.meshes.icosphere(0.2, 1),
    gs.meshes.cylinder(0.1, 0.3, 8),
    gs.meshes.cone(0.2, 0.3, 7),
    gs.meshes.torus(0.2, 0.07, 5, 6),
)


def rigid(chance: Random, mass: Any) -> Parts:
    """One rigid body, with pushes, spin and perhaps restitution."""
    more: dict[str, Any] = {"pushes": [gs.Push(force=(1.0, 0.0, 0.3), point=(0.0, 0.1, 0.0))]}
    if chance.random() < 0.3:
        more["contact"] = gs.Contact(ke=2e3, restitution=chance.uniform(0.2, 0.9))
    turn = {"angular_velocity": (chance.uniform(-3.0, 3.0), 1.0, 0.0)}
    return {"bodies": [gs.Rigid("body", chance.choice(SHAPES), mass, **_place(chance), **turn, **more)]}


def pair(chance: Random, mass: Any) -> Parts:
    """Rigid bodies that touch each other."""
    ball = gs.Ball("ball", radius=chance.uniform(0.05, 0.2), mass=0.5, drag=gs.Drag(quadratic=0.1), **_place(chance))
    boxes = [gs.Rigid(f"box{k}", gs.meshes.box(0.3), 1.0, **_place(chance, 0.1 * k)) for k in range(2)]
    return {"bodies": [*rigid(chance, mass)["bodies"], ball, *boxes[: chance.randint(0, 2)]]}


def soft(chance: Random, mass: Any) -> Parts:
    """An elastic solid of either element, perhaps with self contact and a tether to a ball."""
    mesh = gs.meshes.tet_box(chance.uniform(0.2, 0.5), chance.randint(1, 3))
    more: dict[str, Any] = {"element": chance.choice((gs.LinearTet(), gs.SmoothedTet()))}
    more |= {"material": gs.NeoHookean(mu=2e3, lam=2e3, damping=1.0)}
    more |= {"self_contact": True} if chance.random() < 0.3 else {}
    more |= {"pinned": [0]} if chance.random() < 0.3 else {}
    body = gs.Soft("body", mesh, mass=0.1 * mass, actuation=0.1, **_place(chance), **more)
    return _with_ball(chance, body)


def cloth(chance: Random, mass: Any) -> Parts:
    """A sheet with bending and air drag, perhaps with self contact and a ball that it touches."""
    more: dict[str, Any] = {"self_contact": True} if chance.random() < 0.3 else {}
    more |= {"pinned": [0]} if chance.random() < 0.3 else {}
    mesh = gs.meshes.grid(0.6, chance.randint(1, 5))
    bending = gs.Bending(stiffness=1e-3, damping=1e-5)
    body = gs.Cloth("body", mesh, mass=0.05 * mass, bending=bending, drag=0.1, lift=0.1, **_place(chance), **more)
    return _with_ball(chance, body)


def _with_ball(chance: Random, body: Any) -> Parts:
    """Adds a ball that is tethered to a body of nodes or touches it, or none."""
    choice = chance.randint(0, 2)
    if choice == 0:
        return {"bodies": [body]}
    ball = gs.Ball("ball", radius=0.1, mass=0.3, **_place(chance, 0.2))
    if choice == 1:
        return {"bodies": [body, ball], "forces": [gs.Tether("rope", "body", 0, "ball", stiffness=20.0)]}
    return {"bodies": [body, ball], "forces": [gs.NodeContact("touch", "body", "ball", ke=50.0)]}


def springs(chance: Random, mass: Any) -> Parts:
    """A chain of springs."""
    count = chance.randint(2, 20)
    points = np.linspace((0.0, 1.0, 0.0), (0.6, 1.0, 0.0), count)
    edges = np.stack([np.arange(count - 1), np.arange(1, count)], 1)
    return {"bodies": [gs.Springs("body", points, edges, mass=0.05 * mass, stiffness=40.0, pinned=[0])]}


def pendulum(chance: Random, mass: Any) -> Parts:
    """A point on a massless rod."""
    length = chance.uniform(0.4, 0.8)
    return {"bodies": [gs.Pendulum("body", length=length, angle=0.7, mass=mass, pivot=(0.0, 1.2, 0.0))]}


def arm(chance: Random, mass: Any) -> Parts:
    """Links in a chain or a tree, with joints of all kinds."""
    joints = (
        lambda: gs.Revolute(angle=chance.uniform(-1.0, 1.0), damping=0.01, low=-2.0, high=2.0),
        lambda: gs.Prismatic(stiffness=20.0, damping=0.1),
        lambda: gs.Spherical(),
        lambda: gs.Universal(),
        lambda: gs.Fixed(),
    )
    mesh = gs.meshes.box((0.05, 0.3, 0.05))
    links = {"first": gs.Link(gs.Revolute(angle=0.4), mass=mass, mesh=mesh)}
    for k in range(chance.randint(0, 4)):
        parent = chance.choice(list(links))
        links[f"link{k}"] = gs.Link(chance.choice(joints)(), parent, (0.0, -0.3, 0.0), mass=0.5, mesh=mesh)
    return {"bodies": [gs.Articulated("body", links, position=(0.0, 1.0, 0.0))]}


KINDS = (rigid, pair, soft, cloth, springs, pendulum, arm)


def random_scene(chance: Random, mass: Any = 1.0) -> gs.Scene:
    """A scene of one of the kinds, in some surroundings.

    Args:
        chance: Source of everything that is random.
        mass: Of one body [kg], [...]; several numbers make a batch of worlds.
    """
    friction = chance.choice((gs.Regularized(), gs.Regularized(), gs.Sticking()))
    ground = gs.Ground(ke=chance.uniform(1e3, 2e3), kd=5.0, mu=0.4, friction=friction)
    around: dict[str, Any] = {"ground": ground if chance.random() < 0.9 else None, "camera": CAMERA}
    if chance.random() < 0.3:
        shapes = (
            gs.StaticSphere(ke=1e3, radius=0.3),
            gs.StaticCapsule(ke=1e3, radius=0.1, end=(0.0, 0.4, 0.0)),
            gs.StaticBox(ke=1e3, size=(0.5, 0.2, 0.5)),
        )
        around["shapes"] = {"obstacle": chance.choice(shapes)}
    return gs.Scene(**chance.choice(KINDS)(chance, mass), **around)
