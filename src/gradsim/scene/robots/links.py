"""From a compiled MuJoCo model to the links of an articulated body."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradsim.scene.articulated import Link
from gradsim.scene.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from gradsim.scene.materials import Contact
from gradsim.scene.robots.rotations import matrix, product, rotated, xyzw
from gradsim.scene.robots.shapes import collision_shapes, link_shape

FREE, BALL, SLIDE, HINGE = range(4)  # types of joints in MuJoCo


@dataclass
class RobotLinks:
    """Links by name, and what the names in the file became."""

    links: dict[str, Link] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)  # body or link of the file -> link
    joints: dict[str, str] = field(default_factory=dict)  # joint of the file -> link
    anchors: dict[str, np.ndarray] = field(default_factory=dict)  # origins of the links in the axes of their bodies
    unsupported: list[str] = field(default_factory=list)


def robot_links(model: Any, collides: bool = False, contact: Contact | None = None) -> RobotLinks:
    """Returns all links of a model; bodies with several joints become several links, the first of them without mass.

    With `collides`, every collision geometry becomes a further link without mass that is fixed to its body.
    """
    found = RobotLinks()
    anchors = {0: np.zeros(3)}  # origin of each body's link in the axes of the body
    names: dict[int, str | None] = {0: None}
    for body in range(1, model.nbody):
        _add_body(model, body, found, anchors, names)
        if collides:
            _add_collision(model, body, found, anchors[body], contact)
    found.unsupported += _unsupported(model, collides)
    return found


def _add_body(
    model: Any, body: int, found: RobotLinks, anchors: dict[int, np.ndarray], names: dict[int, str | None]
) -> None:
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    parent_body = int(model.body_parentid[body])
    own = _identifier(model.body(body).name or f"body_{body}", found.links)
    parent, anchor = names[parent_body], np.zeros(3)
    place = model.body_pos[body] - anchors[parent_body]
    turn = xyzw(model.body_quat[body])
    joints = list(range(first, first + count)) if count else [None]
    for number, joint in enumerate(joints):
        last = number == len(joints) - 1
        name = own if last else _identifier(f"{own}_{number + 1}", found.links)
        at = anchor
        if joint is not None and model.jnt_type[joint] in (HINGE, BALL):
            at = np.array(model.jnt_pos[joint])
        kind = Fixed() if joint is None else _joint(model, joint)
        frame_place, frame_turn = place + rotated(turn, at - anchor), turn
        if joint is not None:
            frame_place, frame_turn = _reference(model, joint, frame_place, frame_turn)
        anchor = at
        if joint is not None and model.jnt_type[joint] == FREE:  # its coordinates are those of the world
            frame_place, frame_turn = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
        mass = _mass(model, body, anchor) if last else {}
        found.links[name] = Link(kind, parent, frame_place, frame_turn, **mass)
        if joint is not None:
            found.joints[model.joint(joint).name or f"joint_{joint}"] = name
        parent, place, turn = name, np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
    names[body], anchors[body] = own, anchor
    found.anchors[own] = anchor
    found.bodies[model.body(body).name or f"body_{body}"] = own


def _add_collision(model: Any, body: int, found: RobotLinks, anchor: np.ndarray, contact: Contact | None) -> None:
    parent = found.bodies[model.body(body).name or f"body_{body}"]
    for shape in collision_shapes(model, body, anchor):
        name = _identifier(f"{parent}_shape", found.links)
        found.links[name] = Link(
            Fixed(),
            parent,
            position=shape.position,
            rotation=shape.rotation,
            mesh=shape.mesh,
            look=None,
            collides=True,
            contact=contact,
        )


def _joint(model: Any, joint: int) -> Joint:
    """Returns a joint of the model at the model's reference configuration."""
    kind, dof, at = int(model.jnt_type[joint]), int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
    start = np.array(model.qpos0[at:])
    if kind == FREE:
        return Free(displacement=start[:3], rotation=xyzw(start[3:7]))
    damping, armature, friction = (
        float(getattr(model, f"dof_{name}")[dof]) for name in ("damping", "armature", "frictionloss")
    )
    stiffness = float(model.jnt_stiffness[joint])
    passive = {"stiffness": stiffness, "damping": damping, "armature": armature, "friction": friction}
    if kind == BALL:
        return Spherical(rotation=xyzw(start[:4]), **passive)
    limits: dict[str, Any] = {}
    if model.jnt_limited[joint]:
        limits = {"low": float(model.jnt_range[joint][0]), "high": float(model.jnt_range[joint][1])}
    axis, rest = np.array(model.jnt_axis[joint]), float(model.qpos_spring[at])
    if kind == HINGE:
        return Revolute(axis, float(start[0]), rest=rest, **passive, **limits)
    return Prismatic(axis, float(start[0]), rest=rest, **passive, **limits)


def _reference(model: Any, joint: int, place: np.ndarray, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the frame of a joint where its coordinate is zero; a file gives it at the reference coordinate."""
    kind, reference = int(model.jnt_type[joint]), float(model.qpos0[model.jnt_qposadr[joint]])
    axis = np.array(model.jnt_axis[joint])
    if kind == HINGE and reference:
        back = np.append(axis * np.sin(-reference / 2), np.cos(-reference / 2))
        return place, product(turn, back)
    if kind == SLIDE and reference:
        return place - rotated(turn, axis * reference), turn
    return place, turn


def _mass(model: Any, body: int, anchor: np.ndarray) -> dict[str, Any]:
    """Returns mass properties and shape of a link whose origin is at `anchor` in the axes of the body."""
    mesh, look = link_shape(model, body, anchor)
    given: dict[str, Any] = {"mesh": mesh, "look": look}
    if model.body_mass[body] > 0.0:
        axes = matrix(xyzw(model.body_iquat[body]))
        given["mass"] = float(model.body_mass[body])
        given["center"] = np.array(model.body_ipos[body]) - anchor
        given["inertia"] = axes @ np.diag(model.body_inertia[body]) @ axes.T
    return given


def _unsupported(model: Any, collides: bool) -> list[str]:
    """Returns what the model has and a simulation would leave out."""
    found = []
    counts = {"neq": "equality constraint", "ntendon": "tendon", "nu": "actuator", "nflex": "flex", "nskin": "skin"}
    counts |= {"nmocap": "mocap body", "nplugin": "plugin"}
    readers = {"neq": "equality", "ntendon": "tendon", "nu": "actuator"}
    for attribute, words in counts.items():
        for k in range(getattr(model, attribute)):
            name = getattr(model, readers[attribute])(k).name if attribute in readers else ""
            found.append(f"{words} {name or k}")
    for joint in range(model.njnt):
        name = model.joint(joint).name or joint
        if model.jnt_type[joint] == BALL and model.jnt_limited[joint]:
            found.append(f"limit of ball joint {name}")
        dof = int(model.jnt_dofadr[joint])
        if np.any(model.dof_dampingpoly[dof]) or np.any(model.jnt_stiffnesspoly[joint]):
            found.append(f"polynomial damping or stiffness of joint {name}")
        if model.jnt_type[joint] == FREE and np.any(model.dof_damping[dof : dof + 6]):
            found.append(f"damping of free joint {name}")
        if model.jnt_type[joint] == FREE and np.any(model.dof_armature[dof : dof + 6]):
            found.append(f"armature of free joint {name}")
    if np.any(model.body_gravcomp):
        found.append("gravity compensation")
    if model.opt.viscosity or model.opt.density or np.any(model.opt.wind):
        found.append("fluid forces")
    if not collides and (np.any(model.geom_contype) or np.any(model.geom_conaffinity)):
        found.append("contact of links (collides=True)")
    found += [f"contact exclusion {k}" for k in range(model.nexclude if collides else 0)]
    found += [
        f"geometry {model.geom(k).name or k} of the world" for k in range(model.ngeom) if not model.geom_bodyid[k]
    ]
    return found


def _identifier(name: str, taken: dict[str, Link]) -> str:
    """Returns a name that is an identifier and not taken."""
    base = re.sub(r"\W", "_", name)
    base = base if base.isidentifier() else f"_{base}"
    unique, number = base, 2
    while unique in taken:
        unique, number = f"{base}_{number}", number + 1
    return unique
