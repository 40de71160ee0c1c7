"""Nuisances of gravity, of the ground's pose and of contact parameters."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import (
    DEGREE,
    center_of,
    magnitude,
    multiplied,
    perpendicular,
    size_of,
    tensor_of,
    turned,
    vector,
    with_body,
    with_obstacle,
)
from gradsim.fit.nuisances.nuisance import Nuisance, SceneChange
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.quantity import to_numpy
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import CONTACT_DEPTH

TILT = 0.5  # of gravity and of planes [degree]
# Gravity is known to 0.3 %. Scaling all lengths of a scene is the same as dividing gravity, so this is the uncertainty
# of the unit of length [%].
GRAVITY = 1.0
HEIGHT = 0.01  # of a plane, relative to the smallest body
CONTACT = math.log(1.5)  # of the logarithm of contact parameters
NEW_FRICTION = 0.1  # of a coefficient of friction that is zero
RESTITUTION_SLOPE = 0.1  # decrease of the restitution with the impact speed [s/m]

MEANING = {
    "ke": "contact stiffness",
    "kd": "contact damping",
    "kf": "friction damping",
    "mu": "friction",
    "delta": "contact depth",
}


def gravity_nuisances(scene: Scene) -> Iterator[Nuisance]:
    if magnitude(scene.gravity) == 0.0:
        return
    for k in (0, 1):
        name = f"scene.gravity.tilt_{'xz'[k]}"
        text = wording.of("tilt of gravity", "degree")
        change = _gravity_tilt(k)
        yield Nuisance(name, "tilt", "degree", TILT, text, scene=change, changes=("scene.gravity",))
    text = wording.larger("gravity")
    change = _gravity_factor
    yield Nuisance("scene.gravity.magnitude", "gravity", "%", GRAVITY, text, scene=change, changes=("scene.gravity",))


def _gravity_tilt(k: int) -> SceneChange:
    """Rotation of gravity towards x (k = 0) or z (k = 1), if it points along -y."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        gravity, angle = tensor_of(scene.gravity, amount), DEGREE * amount[..., None]
        towards = perpendicular(gravity)[k] * gravity.norm(dim=-1, keepdim=True)
        return dataclasses.replace(scene, gravity=gravity * torch.cos(angle) + towards * torch.sin(angle))

    return change


def _gravity_factor(scene: Scene, amount: torch.Tensor) -> Scene:
    return dataclasses.replace(scene, gravity=multiplied(scene.gravity, amount / 100, (3,)))


def plane_nuisances(scene: Scene) -> Iterator[Nuisance]:
    """Height and tilt of the ground and of further planes."""
    sizes = [size_of(body) for body in scene.bodies if hasattr(body, "contact")]
    for name, shape in scene.obstacles.items():
        if not isinstance(shape, Ground) or not sizes:
            continue
        text = wording.shifted(f"position of {name}", "its normal", "m")
        change = _plane_height(name)
        sd = HEIGHT * min(sizes)
        yield Nuisance(f"{name}.height", "contact", "m", sd, text, scene=change, changes=(f"{name}.offset",))
        for k in (0, 1):
            text = wording.of(f"tilt of {name}", "degree")
            change = _plane_tilt(name, k, center_of(scene))
            path, paths = f"{name}.tilt_{'xz'[k]}", (f"{name}.normal",)
            yield Nuisance(path, "tilt", "degree", TILT, text, scene=change, changes=paths)


def _plane_height(name: str) -> SceneChange:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        plane: Any = scene.obstacles[name]
        return with_obstacle(scene, name, offset=tensor_of(plane.offset, amount) + amount)

    return change


def _plane_tilt(name: str, k: int, center: np.ndarray) -> SceneChange:
    """Rotation of a plane's normal towards x or z, about the point below the middle of the bodies."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        plane: Any = scene.obstacles[name]
        normal, offset = tensor_of(plane.normal, amount), tensor_of(plane.offset, amount)
        normal = normal / normal.norm(dim=-1, keepdim=True)
        towards = perpendicular(normal)
        tilted = turned(normal, torch.linalg.cross(normal, towards[k]), DEGREE * amount[..., None])
        middle = vector(center, normal)
        foot = middle - ((middle * normal).sum(-1) - offset)[..., None] * normal
        return with_obstacle(scene, name, normal=tilted, offset=(foot * tilted).sum(-1))

    return change


def contact_nuisances(scene: Scene) -> Iterator[Nuisance]:
    """Parameters of the contacts that bodies have: those of static shapes, and those of bodies with their own."""
    touching = [body for body in scene.bodies if hasattr(body, "contact")]
    for name, shape in scene.obstacles.items():
        users = [body for body in touching if _own_contact(body, name) is None]
        if users:
            yield from _contact_of(name, name, shape, users, _obstacle_contact(name))
    if not scene.obstacles:
        return
    for body in touching:
        contacts: Any = getattr(body, "contact")  # noqa: B009
        if isinstance(contacts, Mapping):
            for name, contact in contacts.items():
                change = _mapped_contact(body.name, name)
                yield from _contact_of(f"{body.name}.contact.{name}", f"{body.name} on {name}", contact, [body], change)
        elif contacts is not None:
            yield from _contact_of(f"{body.name}.contact", body.name, contacts, [body], _body_contact(body.name))


def _own_contact(body: Any, name: str) -> Contact | None:
    contact: Contact | None = body.contact.get(name) if isinstance(body.contact, Mapping) else body.contact
    return contact


ContactChange = Callable[[Scene, Callable[[Any], dict[str, Any]]], Scene]


def _obstacle_contact(name: str) -> ContactChange:
    return lambda scene, change: with_obstacle(scene, name, **change(scene.obstacles[name]))


def _body_contact(body: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        contact = scene[body].contact
        return with_body(scene, body, contact=dataclasses.replace(contact, **change(contact)))

    return result


def _mapped_contact(body: str, shape: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        contacts = dict(scene[body].contact)
        contacts[shape] = dataclasses.replace(contacts[shape], **change(contacts[shape]))
        return with_body(scene, body, contact=contacts)

    return result


def _contact_of(path: str, owner: str, contact: Any, users: list[Any], replaced: ContactChange) -> Iterator[Nuisance]:
    for field, phrase in MEANING.items():
        value = getattr(contact, field)
        default = None
        if value is None and field == "kd":
            continue
        if value is None:  # the depth is relative to the size of each body
            sizes = {round(CONTACT_DEPTH * size_of(body), 15) for body in users}
            if len(sizes) > 1:
                continue
            (default,) = sizes
            default = CONTACT_DEPTH * size_of(users[0])
        elif not np.any(to_numpy(value)):
            if field == "mu":
                yield _new_friction(path, owner, replaced)
            continue
        text = wording.larger(f"{phrase} of {owner}", log_unit=1.0)
        change = _contact_factor(field, default, replaced)
        changes = (f"{path}.{field}",)
        yield Nuisance(f"{path}.{field}", "contact", "log", CONTACT, text, scene=change, changes=changes)
    yield from _restitution_of(path, owner, contact, replaced)


def _restitution_of(path: str, owner: str, contact: Any, replaced: ContactChange) -> Iterator[Nuisance]:
    """Ratio of a restitution and its distance from 1, and its decrease with speed."""
    if contact.restitution is None:
        return

    def ratio(scene: Scene, amount: torch.Tensor) -> Scene:
        def value(contact: Any) -> dict[str, Any]:
            e = tensor_of(contact.restitution, amount)
            return {"restitution": e / (e + (1.0 - e) * torch.exp(-amount))}

        return replaced(scene, value)

    def slope(scene: Scene, amount: torch.Tensor) -> Scene:
        return replaced(
            scene, lambda contact: {"restitution_slope": tensor_of(contact.restitution_slope, amount) + amount}
        )

    text = wording.larger(f"ratio e / (1 - e) of the restitution of {owner}", log_unit=1.0)
    name = f"{path}.restitution"
    yield Nuisance(name, "contact", "log", CONTACT, text, scene=ratio, changes=(name,))
    text, name = wording.of(f"decrease of the restitution of {owner} with speed", "s/m"), f"{path}.restitution_slope"
    yield Nuisance(name, "contact", "s/m", RESTITUTION_SLOPE, text, scene=slope, changes=(name,))


def _contact_factor(field: str, default: float | None, replaced: ContactChange) -> SceneChange:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        def values(contact: Any) -> dict[str, Any]:
            value = getattr(contact, field)
            return {field: multiplied(np.asarray(default) if value is None else value, amount)}

        return replaced(scene, values)

    return change


def _new_friction(path: str, owner: str, replaced: ContactChange) -> Nuisance:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        return replaced(scene, lambda contact: {"mu": tensor_of(contact.mu, amount) + amount})

    text = wording.of(f"friction of {owner}")
    changes = (f"{path}.mu",)
    return Nuisance(f"{path}.mu", "contact", "1", NEW_FRICTION, text, scene=change, changes=changes, low=0.0)
