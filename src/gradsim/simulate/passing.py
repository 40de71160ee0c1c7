"""Warning of bodies that pass through each other because nothing in the scene makes them touch.

Rigid bodies touch by default. Nodes touch a rigid body through `gs.NodeContact`, and each other through `self_contact`,
both of which the user asks for: a cloth that falls through a box otherwise does so silently. The check looks for nodes
inside a body in which they were not at first, at some of the frames and in the first world of a batch. Nodes that a
tether connects with the body are expected there, and all are with `pairs=False`. Sheets have no inside, so
that two of them are not checked.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.closed_surfaces import is_box
from gradsim.scene.errors import ContactWarning
from gradsim.scene.forces import Tether
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.compiled_scene import CompiledScene
from gradsim.simulate.forces.distance_grid import signed_distances
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID

RIGID_FRAMES, SOFT_FRAMES = 16, 4  # at most, at which nodes are looked for in rigid and in soft bodies
MAX_NODES = 200  # inside the bounding box of a body, of which not more are looked at
DEPTH = 0.02  # of a body's shortest side, for nodes that count as inside


def warn_of_passing(scene: Scene, compiled: CompiledScene, states: Mapping[str, torch.Tensor]) -> None:
    """Warns once of each pair of bodies of which one passes through the other; `states` are [..., T, count, width]."""
    if scene.pairs is False or len(scene.bodies) < 2 or "node.x" not in states:
        return
    pairs = [*_rigid_pairs(scene), *_soft_pairs(scene)]
    known: set[tuple[str, str]] = compiled.topology.constant("bodies that pass through each other", set)
    pairs = [pair for pair in pairs if (pair[0].name, pair[1].name) not in known]
    frames = states["node.x"].shape[-3] if pairs else 0
    if frames < 2:
        return
    for body, other in pairs:
        limit = RIGID_FRAMES if isinstance(other, Rigid) else SOFT_FRAMES
        chosen = np.unique(np.linspace(0, frames - 1, min(frames, limit + 1)).round().astype(int))
        x = _positions(body, compiled, states, chosen)
        if isinstance(other, Rigid):
            passes = _in_rigid(x, other, compiled, states, chosen)
        else:
            x_other = _positions(other, compiled, states, chosen)
            passes = _in_soft(x, x_other, other) or _in_soft(x_other, x, body)
        if passes:
            known.add((body.name, other.name))
            warnings.warn(_message(body, other), ContactWarning, stacklevel=3)


def _message(body: Any, other: Any) -> str:
    if isinstance(other, Rigid):
        remedy = f"forces=[gs.NodeContact('touch', body='{body.name}', rigid='{other.name}')] makes them touch"
    else:
        remedy = "self_contact=True of both makes them touch"
    return f"'{body.name}' passes through '{other.name}': {remedy}"


def _rigid_pairs(scene: Scene) -> Iterator[tuple[Any, Any]]:
    """Yields bodies of nodes and rigid bodies that neither a contact nor a tether connects."""
    rigid = [body for body in scene.bodies if isinstance(body, Rigid)]
    if rigid:
        linked = {(force.body, force.rigid) for force in scene.forces if isinstance(force, (NodeContact, Tether))}
        nodes = (body for body in scene.bodies if isinstance(body, (Soft, Cloth)))
        yield from (pair for pair in itertools.product(nodes, rigid) if (pair[0].name, pair[1].name) not in linked)


def _soft_pairs(scene: Scene) -> Iterator[tuple[Any, Any]]:
    """Yields pairs of bodies of nodes, one of them solid, that do not touch each other."""
    nodes = [body for body in scene.bodies if isinstance(body, (Soft, Cloth))]
    for body, other in itertools.combinations(nodes, 2):
        if (isinstance(body, Soft) or isinstance(other, Soft)) and not (body.self_contact and other.self_contact):
            yield body, other


def _positions(
    body: Any, compiled: CompiledScene, states: Mapping[str, torch.Tensor], frames: np.ndarray
) -> np.ndarray:
    """Returns the positions of a body's nodes in the first world [m], [frames, N, 3]."""
    return first_world(states["node.x"], frames)[:, slice(*compiled.topology.ranges["node", body.name])]


def first_world(state: torch.Tensor, frames: np.ndarray) -> np.ndarray:
    """Returns a state in the first world at some frames, [frames, count, width]."""
    first: np.ndarray = state.detach().reshape(-1, *state.shape[-3:])[0].cpu().numpy()
    return first[frames].astype(np.float64)


def _in_rigid(
    x: np.ndarray, rigid: Rigid, compiled: CompiledScene, states: Mapping[str, torch.Tensor], frames: np.ndarray
) -> bool:
    """Returns whether a node is inside a rigid body in which it was not at the first frame."""
    index = compiled.topology.ranges["rigid", rigid.name][0]
    p, q = (first_world(states[f"rigid.{name}"], frames)[:, index] for name in "pq")
    row = compiled.array("rigid")[0, :, index].astype(np.float64)
    center, scale = row[RIGID.center_x : RIGID.center_x + 3], row[RIGID.scale_x : RIGID.scale_x + 3]
    scale = scale if rigid.is_scaled else np.ones(3)
    local = (np.einsum("tij,tnj->tni", _matrices(q).swapaxes(1, 2), x - p[:, None]) + center) / scale
    low, high = rigid.mesh.vertices.min(0), rigid.mesh.vertices.max(0)
    margin = DEPTH * (high - low).min()
    near = ((local > low + margin) & (local < high - margin)).all(-1)
    frame, node = np.nonzero(near & ~near[0])
    if not len(frame) or is_box(rigid.mesh):
        return bool(len(frame))
    points = local[frame, node][:: -(-len(frame) // MAX_NODES)]
    if isinstance(rigid, Ball):
        return bool((np.linalg.norm(points, axis=1) < high.max() - margin).any())
    return bool((signed_distances(rigid.mesh, points) < -margin).any())


def _matrices(q: np.ndarray) -> np.ndarray:
    """Returns the rotation matrices of unit quaternions (x, y, z, w), [T, 3, 3]."""
    x, y, z, w = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _in_soft(x: np.ndarray, corners: np.ndarray, body: Soft | Cloth) -> bool:
    """Returns whether a node is inside a tetrahedron of a body in which it was not at the first frame."""
    if isinstance(body, Cloth):
        return False
    inside = [_in_tets(nodes, own[body.mesh.tets]) for nodes, own in zip(x, corners, strict=True)]
    return any((now & ~inside[0]).any() for now in inside[1:])


def _in_tets(points: np.ndarray, tets: np.ndarray) -> np.ndarray:
    """Returns which points are inside a tetrahedron of [E, 4, 3] and not just at its surface, [N]."""
    low, high = tets.min((0, 1)), tets.max((0, 1))
    margin = DEPTH * (high - low).min()
    near = np.flatnonzero(((points > low + margin) & (points < high - margin)).all(1))
    near = near[:: max(1, -(-len(near) // MAX_NODES))]
    found = np.zeros(len(points), dtype=bool)
    if len(near):
        around = (tets.min(1) < points[near].max(0)).all(1) & (tets.max(1) > points[near].min(0)).all(1)
        first, edges = tets[around, 0], (tets[around, 1:] - tets[around, :1]).swapaxes(1, 2)
        weights = np.einsum("eij,enj->eni", np.linalg.inv(edges), points[near] - first[:, None])
        found[near] = ((weights > 0).all(2) & (weights.sum(2) < 1)).any(0)
    return found
