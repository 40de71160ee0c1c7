"""Prescribed motion of pinned nodes and rigid bodies: states that follow a `gs.Motion` instead of the forces.

Before every evaluation of the forces, and at the end of the last step, the state is set to the present value of the
motion. The adjoint moves the gradient of the state to the samples of the motion. The angular momentum of a rigid body
is that of its angular velocity, so that forces between bodies find the velocity of its surface.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.body import NodeBody
from gradsim.scene.motion import moved_samples, rotation_samples
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import multiply
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, MotionRows, ParameterFamily, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions
from gradsim.simulate.state.nodes import initial_positions
from gradsim.simulate.state.rigid import initial_center, initial_rotation

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology

NODE_ROWS = Rows("node_motion", "x", "y", "z", "vx", "vy", "vz")  # [m], [m/s]
# Centre of mass, quaternion, which need not have unit length, and the rates of both.
RIGID_ROWS = Rows("rigid_motion", "x", "y", "z", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "rx", "ry", "rz", "rw")


class PrescribedKernels(NamedTuple):
    """Portable kernels that set a state to its prescribed value, and the adjoint of that."""

    set: Any
    adjoint: Any


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


@functools.cache
def prescribed_node_kernels(real: Any) -> PrescribedKernels:
    types = types_of(real)
    vec3, vec3s, table, ints = types.vec3, types.vec3s, types.table, types.ints
    module = kernel_module("prescribed_nodes", real)
    X, V = NODE_ROWS.x, NODE_ROWS.vx

    @wp.kernel(enable_backward=False, module=module)
    def set_nodes(nodes: ints, motion: table, node: table, x: vec3s, v: vec3s):
        e = wp.tid()
        x[nodes[e]] = vec3(motion[X, e], motion[X + 1, e], motion[X + 2, e])
        v[nodes[e]] = vec3(motion[V, e], motion[V + 1, e], motion[V + 2, e])

    @wp.kernel(enable_backward=False, module=module)
    def set_nodes_adjoint(
        nodes: ints, motion: table, node: table, motion_adj: table, node_adj: table, x_adj: vec3s, v_adj: vec3s
    ):
        e = wp.tid()
        i = nodes[e]
        for k in range(3):
            motion_adj[X + k, e] = motion_adj[X + k, e] + x_adj[i][k]
            motion_adj[V + k, e] = motion_adj[V + k, e] + v_adj[i][k]
        x_adj[i] = vec3()
        v_adj[i] = vec3()

    return PrescribedKernels(set_nodes, set_nodes_adjoint)


@functools.cache
def prescribed_rigid_kernels(real: Any) -> PrescribedKernels:
    types = types_of(real)
    vec3, vec3s, table, ints, quat, quats = types.vec3, types.vec3s, types.table, types.ints, types.quat, types.quats
    module = kernel_module("prescribed_rigid", real)
    functions = rotation_functions(real)
    inverse_inertia, add_inertia_adjoint = functions.inverse_inertia, functions.add_inertia_adjoint
    two = real(2.0)
    X, Q, V, R = RIGID_ROWS.x, RIGID_ROWS.qx, RIGID_ROWS.vx, RIGID_ROWS.rx

    @wp.func
    def three(motion: table, row: int, e: int):
        return vec3(motion[row, e], motion[row + 1, e], motion[row + 2, e])

    @wp.func
    def four(motion: table, row: int, e: int):
        return quat(motion[row, e], motion[row + 1, e], motion[row + 2, e], motion[row + 3, e])

    @wp.func
    def pure(a: vec3):
        return quat(a[0], a[1], a[2], real(0.0))

    @wp.func
    def angular_velocity(y: quat, rate: quat):
        """In world axes, from a quaternion and its rate."""
        a = rate * wp.quat_inverse(y)  # the inverse is the conjugate
        return vec3(a[0], a[1], a[2]) * (two / wp.dot(y, y))

    @wp.kernel(enable_backward=False, module=module)
    def set_bodies(bodies: ints, motion: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s):
        e = wp.tid()
        i = bodies[e]
        y = four(motion, Q, e)
        turn = wp.quat_to_matrix(wp.normalize(y))
        w = wp.transpose(turn) * angular_velocity(y, four(motion, R, e))
        p[i] = three(motion, X, e)
        q[i] = wp.normalize(y)
        v[i] = three(motion, V, e)
        l[i] = turn * (wp.inverse(inverse_inertia(body, i)) * w)

    @wp.kernel(enable_backward=False, module=module)
    def set_bodies_adjoint(
        bodies: ints, motion: table, body: table, motion_adj: table, body_adj: table,
        p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        y = four(motion, Q, e)
        rate = four(motion, R, e)
        q = wp.normalize(y)
        turn = wp.quat_to_matrix(q)
        inertia = wp.inverse(inverse_inertia(body, i))
        w = angular_velocity(y, rate)
        momentum = inertia * (wp.transpose(turn) * w)
        spin_adj = inertia * (wp.transpose(turn) * l_adj[i])
        add_inertia_adjoint(-wp.outer(spin_adj, momentum), body_adj, i)
        w_adj = turn * spin_adj
        rotation = wp.cross(turn * momentum, l_adj[i]) - wp.cross(w, w_adj)
        per = two / wp.dot(y, y)
        y_adj = (pure(rotation) * y - pure(w_adj) * rate - y * wp.dot(w, w_adj)) * per
        y_adj = y_adj + (q_adj[i] - q * wp.dot(q, q_adj[i])) / wp.length(y)
        rate_adj = (pure(w_adj) * y) * per
        for k in range(3):
            motion_adj[X + k, e] = motion_adj[X + k, e] + p_adj[i][k]
            motion_adj[V + k, e] = motion_adj[V + k, e] + v_adj[i][k]
        for k in range(4):
            motion_adj[Q + k, e] = motion_adj[Q + k, e] + y_adj[k]
            motion_adj[R + k, e] = motion_adj[R + k, e] + rate_adj[k]
        p_adj[i] = vec3()
        q_adj[i] = quat()
        v_adj[i] = vec3()
        l_adj[i] = vec3()

    return PrescribedKernels(set_bodies, set_bodies_adjoint)


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
