"""Prescribed motion of pinned nodes and rigid bodies: states that follow a `gs.Motion` instead of the forces.

Before every evaluation of the forces, and at the end of the last step, the state is set to the present value of the
motion. The adjoint moves the gradient of the state to the samples of the motion. The angular momentum of a rigid body
is that of its angular velocity, so that forces between bodies find the velocity of its surface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradsim.scene.body import NodeBody
from gradsim.scene.motion import moved_samples, rotation_samples
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import multiply
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, MotionRows, ParameterFamily
from gradsim.simulate.state.kernels.prescribed import (
    NODE_ROWS,
    RIGID_ROWS,
    prescribed_node_kernels,
    prescribed_rigid_kernels,
)
from gradsim.simulate.state.nodes import initial_positions
from gradsim.simulate.state.rigid import initial_center, initial_rotation

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology


def sample_count(owner: Any) -> int:
    """Returns the samples of an object's motion; 0 if it has none."""
    motion = getattr(owner, "motion", None)
    return 0 if motion is None else int(motion.sample_count)


def node_motion_elements(body: Any, place: Placement) -> Elements:
    nodes = np.asarray(body.pinned, dtype=np.int32) + np.int32(place.first("node", body))
    return Elements(len(nodes), {"elements": nodes})


def node_motion_samples(body: Any, scene: Scene, topology: Topology, batcher: SceneBatcher) -> dict[str, torch.Tensor]:
    """Returns the positions of the pinned nodes at the samples, for the rows of positions and of velocities."""
    x = initial_positions(body, topology, batcher)[:, None, torch.as_tensor(body.pinned.astype(np.int64))]
    turns = rotation_samples(body.motion, batcher)
    axes = moved_samples(x, body.motion, turns, batcher(body.position, 1, (3,)), batcher).unbind(-1)
    return dict(zip(NODE_ROWS, (*axes, *axes), strict=True))


def rigid_motion_samples(body: Any, scene: Scene, topology: Topology, batcher: SceneBatcher) -> dict[str, torch.Tensor]:
    """Returns centre of mass and rotation at the samples, for their rows and those of their rates."""
    turns, count = rotation_samples(body.motion, batcher), body.motion.sample_count
    start = initial_center(body, topology, batcher)[:, None]
    p = moved_samples(start, body.motion, turns, batcher(body.position, 1, (3,)), batcher)
    q = initial_rotation(body, topology, batcher)[:, None].expand(-1, count, -1, -1)
    q = q if turns is None else multiply(*torch.broadcast_tensors(turns, q))
    values = torch.cat([p, q, p, q], -1).unbind(-1)
    return dict(zip(RIGID_ROWS, values, strict=True))


def _zero_columns(family: str, row_count: int) -> Any:
    """Returns a function for rows that signals set, [B, rows, elements]."""

    def columns(owner: Any, scene: Scene, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
        first, end = topology.ranges[family, owner.name]
        return batcher(np.zeros(row_count), end - first, (row_count,)).transpose(1, 2)

    return columns


def _motion_rows(rows: Any, samples: Any) -> MotionRows:
    return MotionRows({row: "rate" if row[0] in "vr" else "cubic" for row in rows}, sample_count, samples)


NODE_MOTION = ParameterFamily(
    name="node_motion",
    rows=NODE_ROWS,
    owners=(NodeBody,),
    elements=node_motion_elements,
    columns=_zero_columns("node_motion", len(NODE_ROWS)),
    present=lambda body, scene: sample_count(body) > 0,
    key=lambda body: np.asarray(body.pinned).tobytes(),
    prescribed=_motion_rows(NODE_ROWS, node_motion_samples),
)
RIGID_MOTION = ParameterFamily(
    name="rigid_motion",
    rows=RIGID_ROWS,
    owners=(Rigid,),
    elements=lambda body, place: Elements(1, {"elements": np.array([place.first("rigid", body)], dtype=np.int32)}),
    columns=_zero_columns("rigid_motion", len(RIGID_ROWS)),
    present=lambda body, scene: sample_count(body) > 0,
    prescribed=_motion_rows(RIGID_ROWS, rigid_motion_samples),
)

# The part of the state that a family of prescribed motions sets, and its portable kernels.
PRESCRIBED = {
    "node_motion": ("node", prescribed_node_kernels),
    "rigid_motion": ("rigid", prescribed_rigid_kernels),
}
