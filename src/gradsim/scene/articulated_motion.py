"""The motion of an articulated body: coordinates of its joints, and poses of its links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from gradsim.scene.errors import UnknownName
from gradsim.scene.interpolation import Sampling
from gradsim.scene.joint_tree import JointElement
from gradsim.scene.rotation import multiply, rotate


@dataclass(frozen=True, eq=False)
class LinkMotion:
    """The motion of one link."""

    position: torch.Tensor  # of the link's origin [m], [..., T, 3]
    rotation: torch.Tensor  # unit quaternion (x, y, z, w), [..., T, 4]
    velocity: torch.Tensor  # of the origin [m/s], [..., T, 3]
    angular_velocity: torch.Tensor  # in world axes [rad/s], [..., T, 3]

    def points(self, offsets: torch.Tensor) -> torch.Tensor:
        """Returns the positions [m], [..., T, V, 3], of points in the axes of the link, [V, 3]."""
        return self.position[..., None, :] + rotate(self.rotation[..., None, :], offsets)


@dataclass(frozen=True, eq=False)
class ArticulatedMotion:
    """The motion of an articulated body; everything but the coordinates of its joints is computed on first use."""

    coordinates: torch.Tensor = field(repr=False)  # of the expanded joints, [..., T, E, 4]
    speeds: torch.Tensor = field(repr=False)  # [..., T, E, 3]
    offsets: torch.Tensor = field(repr=False)  # of the joints' frames in their parents [m], [..., 1, E, 3]
    frames: torch.Tensor = field(repr=False)  # rotations of these, [..., 1, E, 4]
    alignments: torch.Tensor = field(repr=False)  # rotations from the z axis to the axes of the joints, [..., 1, E, 4]
    elements: tuple[JointElement, ...] = field(repr=False)
    joints: tuple[str, ...]  # links whose joints have one coordinate, in the order of `angles`
    meshes: dict[str, torch.Tensor] = field(repr=False)  # vertices by link [m], [V, 3]

    @cached_property
    def _scalar_elements(self) -> list[int]:
        return [k for k, element in enumerate(self.elements) if element.carries and element.link in self.joints]

    @cached_property
    def angles(self) -> torch.Tensor:
        """Coordinates of hinges [rad] and sliders [m], in the order of `joints`, [..., T, J]."""
        return self.coordinates[..., self._scalar_elements, 0]

    @cached_property
    def rates(self) -> torch.Tensor:
        """Their rates [rad/s], [m/s], [..., T, J]."""
        return self.speeds[..., self._scalar_elements, 0]

    def angle(self, joint: str) -> torch.Tensor:
        """Returns the angle or displacement of one joint, by the name of its link, [..., T]."""
        return self.angles[..., self._index(joint)]

    def rate(self, joint: str) -> torch.Tensor:
        """Returns its rate, [..., T]."""
        return self.rates[..., self._index(joint)]

    def _index(self, joint: str) -> int:
        if joint not in self.joints:
            raise UnknownName("joint", repr(joint), f"the joints with one coordinate are {', '.join(self.joints)}")
        return self.joints.index(joint)

    @cached_property
    def links(self) -> dict[str, LinkMotion]:
        """Motions of the links by name."""
        poses: list[LinkMotion] = []
        found = {}
        for k, element in enumerate(self.elements):
            poses.append(self._moved(k, element, poses[element.parent] if element.parent >= 0 else None))
            if element.carries:
                align = self.alignments[..., k, :] * self.alignments.new_tensor([-1.0, -1.0, -1.0, 1.0])
                rotation = poses[k].rotation
                found[element.link] = replace(poses[k], rotation=multiply(*torch.broadcast_tensors(rotation, align)))
        return found

    def _moved(self, k: int, element: JointElement, parent: LinkMotion | None) -> LinkMotion:
        """Returns the motion behind a joint, in axes whose z axis is that of the joint."""
        q, v = self.coordinates[..., k, :], self.speeds[..., k, :]
        offset, frame = self.offsets[..., k, :], self.frames[..., k, :]
        if parent is None:
            zero = torch.zeros_like(v)
            parent = LinkMotion(zero, zero.new_tensor([0.0, 0.0, 0.0, 1.0]).expand_as(q), zero, zero)
        arm = rotate(parent.rotation, offset)
        base, frame = torch.broadcast_tensors(parent.rotation, frame)
        rotation = multiply(base, frame)
        if element.kind == "revolute":
            half, zero = q[..., :1] / 2, torch.zeros_like(q[..., :1])
            rotation = multiply(rotation, torch.cat([zero, zero, torch.sin(half), torch.cos(half)], -1))
        elif element.kind == "ball":
            rotation = multiply(rotation, q)
        spin, slide = torch.zeros_like(v), torch.zeros_like(v)
        if element.kind == "ball":
            spin = rotate(rotation, v)
        elif element.kind != "fixed":
            axis = rotate(rotation, v.new_tensor([0.0, 0.0, 1.0]))
            if element.kind == "revolute":
                spin = axis * v[..., :1]
            else:
                arm, slide = arm + axis * q[..., :1], axis * v[..., :1]
        velocity = parent.velocity + torch.linalg.cross(parent.angular_velocity, arm.expand_as(v)) + slide
        return LinkMotion(parent.position + arm, rotation, velocity, parent.angular_velocity + spin)

    def link(self, name: str) -> LinkMotion:
        """Returns the motion of one link."""
        if name not in self.links:
            raise UnknownName("link", repr(name), f"the links are {', '.join(self.links)}")
        return self.links[name]

    @cached_property
    def vertices(self) -> torch.Tensor:
        """Vertices of all meshes, link by link [m], [..., T, V, 3]."""
        parts = [self.links[name].points(points) for name, points in self.meshes.items()]
        return torch.cat([self.coordinates.new_zeros(*self.coordinates.shape[:-2], 0, 3), *parts], -2)

    @cached_property
    def velocities(self) -> torch.Tensor:
        """Their velocities [m/s], [..., T, V, 3]."""
        parts = [self.coordinates.new_zeros(*self.coordinates.shape[:-2], 0, 3)]
        for name, points in self.meshes.items():
            link = self.links[name]
            arms = rotate(link.rotation[..., None, :], points)
            spin = link.angular_velocity[..., None, :].expand_as(arms)
            parts.append(link.velocity[..., None, :] + torch.linalg.cross(spin, arms))
        return torch.cat(parts, -2)

    def displaced(self, shift: torch.Tensor) -> ArticulatedMotion:
        """Returns the motion with the base displaced by a vector [m], [3]."""
        roots = torch.tensor([element.parent < 0 for element in self.elements], device=shift.device)[:, None]
        return replace(self, offsets=self.offsets + torch.where(roots, shift.to(self.offsets), 0.0))

    def at(self, frames: slice) -> ArticulatedMotion:
        moving = {name: getattr(self, name)[..., frames, :, :] for name in ("coordinates", "speeds")}
        return replace(self, **moving)

    def sample(self, sampling: Sampling) -> ArticulatedMotion:
        """Returns the motion at other times."""
        x, v = sampling.interpolate(self.coordinates, torch.nn.functional.pad(self.speeds, (0, 1)), -3)
        coordinates, speeds = list(x.unbind(-2)), list(v[..., :3].unbind(-2))
        for k, element in enumerate(self.elements):
            if element.kind == "ball":
                q, own = self.coordinates[..., k, :], self.speeds[..., k, :]
                q, spin = sampling.interpolate_rotation(q, rotate(q, own))
                coordinates[k], speeds[k] = q, rotate(q, spin, back=True)
        return replace(self, coordinates=torch.stack(coordinates, -2), speeds=torch.stack(speeds, -2))

    @staticmethod
    def joined(motions: Sequence[ArticulatedMotion]) -> ArticulatedMotion:
        """Concatenates motions in time."""
        moving: dict[str, Any] = {
            name: torch.cat([getattr(motion, name) for motion in motions], -3) for name in ("coordinates", "speeds")
        }
        return replace(motions[0], **moving)
