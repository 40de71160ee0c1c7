"""Contact of nodes with other nodes: of the same body, and of other bodies of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import WrongType
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import Quantity, quantity, specs_of
from gradsim.scene.validation import check_element_count, validate_quantities

SPACING = 0.9  # diameter of the balls, as a fraction of the distance of neighbouring nodes


@dataclass(frozen=True, eq=False)
class SelfContact:
    """Contact of balls at the nodes of a sheet, or at the surface nodes of a solid, with each other.

    Nodes that share an element do not touch. Nodes of different bodies that both have a `SelfContact` touch as well,
    with the means of their parameters. The force of a pair follows the contact law of `gs.Contact` and acts on both
    nodes, equal and opposite.

    Example:
        `gs.Cloth("sheet", gs.meshes.grid(1.0, 8), mass=0.2, self_contact=gs.SelfContact(radius=0.02))`

    Args:
        ke: Stiffness [N/m].
        kd: Damping [N s/m].
        kf: Friction damping [N s/m].
        mu: Coefficient of friction.
        delta: Depth over which stiffness and damping increase to their full values [m]; a tenth of the diameter of the
            balls if None.
        radius: Radius of the balls [m], one number or `gs.per_element` with one for each node. None takes 0.45 of the
            mean distance of a node to its neighbours: balls of neighbouring nodes then almost touch, and no node can
            pass between others.
        within: Whether nodes of the same body touch each other; if not, only those of different bodies do.
    """

    ke: Quantity = quantity(1e3, "N/m", low=0.0)
    kd: Quantity = quantity(0.1, "N s/m", low=0.0)
    kf: Quantity = quantity(0.1, "N s/m", low=0.0)
    mu: Quantity = quantity(0.3, "1", low=0.0)
    delta: Quantity | None = quantity(None, "m", low=0.0)
    radius: Quantity | None = quantity(None, "m", above=0.0, per="node")
    within: bool = True

    def __post_init__(self) -> None:
        validate_quantities(self, "SelfContact")
        if not isinstance(self.within, bool):
            raise WrongType("SelfContact.within", repr(self.within), "must be True or False")


def check_self_contact(body: Any, count: int) -> None:
    """Replaces True by `SelfContact()` and False by None; raises unless the contact fits a body with `count` nodes."""
    given: Any = body.self_contact
    if isinstance(given, bool):
        object.__setattr__(body, "self_contact", SelfContact() if given else None)
    elif given is not None and not isinstance(given, SelfContact):
        valid = "must be True, False or a gs.SelfContact"
        raise WrongType(f"{body.name}.self_contact", type(given).__name__, valid)
    elif given is not None:
        spec = specs_of(SelfContact)["radius"]
        check_element_count(f"{body.name}.self_contact.radius", given.radius, spec, count)


def mesh_edges(mesh: TriMesh | TetMesh) -> np.ndarray:
    """Returns the pairs of nodes that share an element, each once and in order, [E, 2]."""
    elements = mesh.tets if isinstance(mesh, TetMesh) else mesh.faces
    corners = elements.shape[1]
    pairs = [elements[:, [a, b]] for a in range(corners) for b in range(a)]
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)


def contact_nodes(mesh: TriMesh | TetMesh) -> np.ndarray:
    """Returns the nodes that have a ball: those of the surface, [N]."""
    return np.unique(mesh.surface if isinstance(mesh, TetMesh) else mesh.faces)


def ball_radii(mesh: TriMesh | TetMesh) -> np.ndarray:
    """Returns the default radii of the balls of all nodes [m], [N]."""
    edges = mesh_edges(mesh)
    if isinstance(mesh, TetMesh):  # inner edges do not separate the nodes of the surface
        sides = [mesh.surface[:, [a, b]] for a in range(3) for b in range(a)]
        edges = np.unique(np.sort(np.concatenate(sides), axis=1), axis=0)
    lengths = np.linalg.norm(mesh.vertices[edges[:, 0]] - mesh.vertices[edges[:, 1]], axis=1)
    count = len(mesh.vertices)
    sums = np.bincount(edges.ravel(), np.repeat(lengths, 2), count)
    return 0.5 * SPACING * sums / np.maximum(np.bincount(edges.ravel(), minlength=count), 1)


def untouched_pairs(mesh: TriMesh | TetMesh) -> np.ndarray:
    """Returns the pairs of nodes that never touch: neighbours, and others whose balls overlap at rest, [E, 2]."""
    nodes, radii = contact_nodes(mesh), ball_radii(mesh)
    points, size = mesh.vertices[nodes], 1.1 * radii[nodes]
    near = [np.zeros((0, 2), dtype=int)]
    for k in range(1, len(nodes)):
        overlap = np.linalg.norm(points[:k] - points[k], axis=1) < size[:k] + size[k]
        near.append(np.stack([nodes[:k][overlap], np.full(overlap.sum(), nodes[k])], 1))
    return np.unique(np.concatenate([mesh_edges(mesh), *near]), axis=0)
