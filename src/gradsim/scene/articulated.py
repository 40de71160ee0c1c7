"""Articulated bodies: trees of rigid links that joints connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gradsim.scene.bodies import check_name, check_rotation
from gradsim.scene.body import Body
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.scene.joint_tree import JointElement, joint_elements
from gradsim.scene.joints import Fixed, Joint, is_scalar
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import Quantity, Signal, quantities, quantity, sample_count, to_numpy
from gradsim.scene.rigid import Drag, check_closed_once
from gradsim.scene.validation import has_zero_vector, validate_quantities


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid link of an articulated body, with the joint that connects it to its parent.

    The link's axes are those of the joint's frame where all coordinates of the joint are zero.

    Example:
        `gs.Link(gs.Revolute(), mass=1.0, center=(0.0, -0.2, 0.0), mesh=gs.meshes.box((0.06, 0.4, 0.06)))`

    Args:
        joint: Joint to the parent.
        parent: Name of the parent; None for the base, which stands still.
        position: Origin of the joint's frame, and of the link, in the parent's axes [m], [..., 3].
        rotation: Rotation of that frame, quaternion (x, y, z, w), [..., 4].
        mass: [kg]; at most one of `mass` and `density` is given. A link without either has no mass.
        density: [kg/m^3], of the solid inside the mesh.
        center: Centre of mass in the axes of the link [m], [..., 3]; that of the solid inside the mesh if None, or
            the link's origin without a mesh.
        inertia: About the centre of mass, in the axes of the link [kg m^2], [..., 3, 3]; that of the solid inside the
            mesh if None, or zero without a mesh.
        mesh: Shape in the axes of the link, for images, mass properties and contact.
        look: Appearance; None excludes the link from rendering.
        collides: Whether the mesh touches static shapes, other bodies, and other links of the body except those that
            one joint connects to it. A `gs.meshes.icosphere` about the link's origin touches as an exact sphere.
        contact: Contact parameters, or those by name of the shape or body, as for `gs.Rigid`.
        drag: Air drag at the centre of mass, or at the link's origin without mass; none if None.
    """

    joint: Joint = field(default_factory=Fixed)
    parent: str | None = None
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    mass: Quantity | None = quantity(None, "kg", low=0.0)
    density: Quantity | None = quantity(None, "kg/m^3", above=0.0)
    center: Quantity | None = quantity(None, "m", shape=(3,))
    inertia: Quantity | None = quantity(None, "kg m^2", shape=(3, 3))
    mesh: TriMesh | None = None
    look: Look | None = Look()
    collides: bool = False
    contact: Contact | Mapping[str, Contact] | None = None
    drag: Drag | None = None


@dataclass(frozen=True, eq=False)
class Articulated(Body):
    """A tree of links: an arm, a door, a robot, a pendulum with heavy rods.

    Coordinates are those of the joints, so that joints neither drift nor limit the time step. Links touch each other
    and their surroundings where they have `collides=True`.

    Example:
        `gs.Articulated("arm", {"upper": gs.Link(gs.Revolute(angle=0.3), mass=1.0, center=(0.0, -0.2, 0.0))})`

    Args:
        name: Identifier; paths of the body's parameters start with it, as in `arm.links.upper.joint.damping`.
        links: Links by name, each after its parent.
        position: Position of the base [m], [..., 3].
        rotation: Rotation of the base, quaternion (x, y, z, w), [..., 4].
    """

    name: str
    links: Mapping[str, Link]
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))

    look = None  # links have their own

    def __post_init__(self) -> None:
        check_name(self.name)
        validate_quantities(self, self.name)
        check_rotation(self)
        links: Any = self.links
        if not isinstance(links, Mapping) or not links:
            remedy = "must be links by name, {'upper': gs.Link(...)}"
            raise WrongType(f"{self.name}.links", type(links).__name__, remedy)
        known: list[str] = []
        for name, link in links.items():
            label = f"{self.name}.links.{name}"
            if not isinstance(name, str) or not name.isidentifier():
                raise InvalidInput(label, repr(name), "a link's name must be an identifier such as 'upper_arm'")
            if not isinstance(link, Link):
                raise WrongType(label, type(link).__name__, "must be a gs.Link")
            _check_link(label, link)
            if link.parent is not None and link.parent not in known:
                remedy = f"must be None or a link before it: {', '.join(known) or 'there is none'}"
                raise UnknownName(f"{label}.parent", repr(link.parent), remedy)
            known.append(name)
        self._check_signals()

    def _check_signals(self) -> None:
        """Raises WrongShape unless all signals of one kind have the same number of samples."""
        found: dict[str, tuple[str, int]] = {}
        for name, link in self.links.items():
            for row, spec in quantities(link.joint):
                value = getattr(link.joint, row)
                if isinstance(value, Signal):
                    kind, count = "effort" if row in ("torque", "force") else row, sample_count(value, spec.shape)
                    first, known = found.setdefault(kind, (f"{self.name}.links.{name}.joint.{row}", count))
                    if count != known:
                        path = f"{self.name}.links.{name}.joint.{row}"
                        raise WrongShape(path, f"a signal of {count} samples", f"{first} has {known}: give as many")

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yields links and joints with their paths."""
        for name, link in self.links.items():
            yield f"{self.name}.links.{name}", link
            yield f"{self.name}.links.{name}.joint", link.joint
            contacts = link.contact if isinstance(link.contact, Mapping) else {"": link.contact}
            for other, contact in contacts.items():
                if contact is not None:
                    yield f"{self.name}.links.{name}.contact.{other}".rstrip("."), contact
            if link.drag is not None:
                yield f"{self.name}.links.{name}.drag", link.drag

    @cached_property
    def elements(self) -> tuple[JointElement, ...]:
        """The joints as a tree of hinges, sliders, balls and fixed connections."""
        return joint_elements(self.links)

    @cached_property
    def scalar_joints(self) -> tuple[str, ...]:
        """Names of the links whose joints have one coordinate, in the order of `ArticulatedMotion.angles`."""
        return tuple(name for name, link in self.links.items() if is_scalar(link.joint))

    @cached_property
    def mesh_links(self) -> tuple[str, ...]:
        """Names of the links that have a mesh."""
        return tuple(name for name, link in self.links.items() if link.mesh is not None)

    @property
    def faces(self) -> np.ndarray:
        """Triangles of all meshes, [F, 3]."""
        faces, first = [np.zeros((0, 3), np.int32)], 0
        for name in self.mesh_links:
            mesh: Any = self.links[name].mesh
            faces.append(mesh.faces + first)
            first += len(mesh.vertices)
        return np.concatenate(faces)


def _check_link(label: str, link: Link) -> None:
    validate_quantities(link, label)
    if has_zero_vector(link.rotation):
        raise OutOfRange(f"{label}.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is the identity")
    joint: Any = link.joint
    if not isinstance(joint, Joint):
        kinds = ", ".join(f"gs.{kind.__name__}" for kind in Joint.kinds)
        raise WrongType(f"{label}.joint", type(joint).__name__, f"must be one of {kinds}")
    joint.check(f"{label}.joint")
    mesh: Any = link.mesh
    if mesh is not None and not isinstance(mesh, TriMesh):
        raise WrongType(f"{label}.mesh", type(mesh).__name__, "must be a TriMesh")
    if link.mass is not None and link.density is not None:
        raise InvalidInput(f"{label}.mass/density", "both", "give at most one of the two")
    if link.density is not None:
        if link.mesh is None:
            raise InvalidInput(f"{label}.density", "no mesh", "a density needs a mesh: give mass, center and inertia")
        check_closed_once(f"{label}.mesh", link.mesh)
    elif link.mass is not None and link.mesh is not None and (link.center is None or link.inertia is None):
        check_closed_once(f"{label}.mesh", link.mesh)
    if mesh is not None:
        check_look(label, link.look, lambda: (len(mesh.vertices), len(mesh.faces)))
    _check_collision(label, link)
    drag: Any = link.drag
    if drag is not None and not isinstance(drag, Drag):
        raise WrongType(f"{label}.drag", type(drag).__name__, "must be a gs.Drag or None")
    inertia = to_numpy(link.inertia)
    if inertia is not None and not np.allclose(inertia, np.swapaxes(inertia, -1, -2), rtol=1e-9):
        raise WrongShape(f"{label}.inertia", "not symmetric", "an inertia tensor must be symmetric")


def _check_collision(label: str, link: Link) -> None:
    """Validates whether a link collides, and its contact parameters."""
    contacts: Any = link.contact
    if not isinstance(link.collides, bool):
        raise WrongType(f"{label}.collides", repr(link.collides), "must be True or False")
    for other, contact in contacts.items() if isinstance(contacts, Mapping) else [("", contacts)]:
        if contact is not None and not isinstance(contact, Contact):
            name = f"{label}.contact" + (f"[{other!r}]" if other else "")
            raise WrongType(name, type(contact).__name__, "must be a gs.Contact, or gs.Contact by name")
    if contacts is not None and not link.collides:
        raise InvalidInput(f"{label}.contact", "given", "needs collides=True")
    if link.collides:
        if link.mesh is None:
            raise InvalidInput(f"{label}.collides", "True without mesh", "a link touches with its mesh: give one")
        check_closed_once(f"{label}.mesh", link.mesh)
