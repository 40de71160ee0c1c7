"""Frequencies and damping rates of articulated bodies at their initial state, for the largest stable time step."""

from __future__ import annotations

import numpy as np

from gradsim.scene.joints import NO_LIMIT
from gradsim.simulate.state.kernels.articulated import KINDS, ROWS

STIFF = ("stiffness", "gain")
DAMPED = ("damping", "rate_gain")


def joint_rates(table: np.ndarray, q: np.ndarray, kinds: np.ndarray, parents: np.ndarray) -> tuple[float, float]:
    """Returns the largest squared frequency [1/s^2] and damping rate [1/s] of springs, limits, motors and friction.

    Args:
        table: Parameters of the joints, [B, rows, E].
        q: Coordinates, [B, E, 4].
        kinds: Kind of each joint, [E].
        parents: Index of each joint's parent, -1 for none, [E].
    """
    stiffness = sum(table[:, getattr(ROWS, name)] for name in STIFF)
    damping = sum(table[:, getattr(ROWS, name)] for name in DAMPED)
    damping = damping + table[:, ROWS.friction] / table[:, ROWS.slip]
    limited = (table[:, ROWS.low] > -NO_LIMIT) | (table[:, ROWS.high] < NO_LIMIT)
    stiffness = stiffness + limited * table[:, ROWS.limit_stiffness]
    damping = damping + limited * table[:, ROWS.limit_damping]
    if not stiffness.any() and not damping.any():
        return 0.0, 0.0
    bodies = JointJacobians(table, q, kinds, parents)
    owners, inverse = bodies.owners, bodies.inverse_mass_matrix
    # eigenvalues of the inverse mass matrix times a diagonal matrix
    roots = np.sqrt(np.maximum(np.stack([stiffness, damping])[..., owners], 0.0))
    largest = np.linalg.eigvalsh(roots[..., :, None] * inverse * roots[..., None, :])[..., -1].max(-1)
    return float(largest[0]), float(largest[1])


def link_compliance(jacobians: JointJacobians, element: int, points: np.ndarray) -> float:
    """Returns the largest acceleration of points of a link per unit of force on one [1/kg].

    Args:
        jacobians: Of the body.
        element: Joint that carries the link.
        points: In the axes of that joint [m], [B, P, 3].
    """
    turned = points @ jacobians.rotations[element].swapaxes(1, 2)
    own = [jacobians.slides[element] + _cross(jacobians.turns[element], turned[:, k]) for k in range(turned.shape[1])]
    rows = np.stack(own, 1)  # [B, P, 3, D]
    compliance = rows @ jacobians.inverse_mass_matrix[:, None] @ rows.swapaxes(2, 3)
    return float(np.linalg.eigvalsh(compliance)[..., -1].max())


class JointJacobians:
    """Jacobians of the links' motions by the rates of the joints, and the inverse mass matrix; arguments as above.

    Attributes:
        owners: Joint of every degree of freedom.
        turns: Jacobians of the angular velocity of each link, [B, 3, D].
        slides: Of the velocity of its origin.
        rotations: Axes of each link, [B, 3, 3].
        inverse_mass_matrix: [B, D, D].
    """

    def __init__(self, table: np.ndarray, q: np.ndarray, kinds: np.ndarray, parents: np.ndarray):
        self.turns: list[np.ndarray] = []
        self.slides: list[np.ndarray] = []
        self.rotations: list[np.ndarray] = []
        self.owners, self.inverse_mass_matrix = self._build(table, q, kinds, parents)

    def _build(
        self, table: np.ndarray, q: np.ndarray, kinds: np.ndarray, parents: np.ndarray
    ) -> tuple[list[int], np.ndarray]:
        turns, slides, rotations = self.turns, self.slides, self.rotations
        owners = [e for e, kind in enumerate(kinds) for _ in range({KINDS.ball: 3, KINDS.fixed: 0}.get(int(kind), 1))]
        worlds, count = len(table), len(owners)
        mass_matrix = np.zeros((worlds, count, count))
        frames = quaternion_matrix(table[:, ROWS.frame_x : ROWS.frame_w + 1])  # [B, 3, 3, E]
        for e, kind in enumerate(kinds):
            parent = int(parents[e])
            turn, slide = np.zeros((worlds, 3, count)), np.zeros((worlds, 3, count))
            frame, arm = frames[..., e], table[:, ROWS.offset_x : ROWS.offset_z + 1, e]
            if parent >= 0:
                frame = rotations[parent] @ frame
                arm = (rotations[parent] @ arm[:, :, None])[:, :, 0]
                turn, slide = turns[parent].copy(), slides[parent].copy()
            axis = frame[:, :, 2]
            own = [k for k, owner in enumerate(owners) if owner == e]
            if kind == KINDS.prismatic:
                arm = arm + axis * q[:, e, :1]
            slide += _cross(turn, arm)
            if kind == KINDS.prismatic:
                slide[:, :, own[0]] += axis
            elif kind == KINDS.revolute:
                frame = frame @ _about_z(q[:, e, 0])
                turn[:, :, own[0]] += axis
            elif kind == KINDS.ball:
                frame = frame @ quaternion_matrix(q[:, e])
                turn[:, :, own] += frame
            turns.append(turn)
            slides.append(slide)
            rotations.append(frame)
            mass_matrix += _link_mass_matrix(table[:, :, e], frame, turn, slide)
            for k in own:
                mass_matrix[:, k, k] += table[:, ROWS.armature, e]
        trace = np.trace(mass_matrix, axis1=1, axis2=2) / max(count, 1)
        regular = mass_matrix + 1e-12 * trace[:, None, None] * np.eye(count)
        return owners, np.linalg.inv(regular)


def _link_mass_matrix(row: np.ndarray, R: np.ndarray, turn: np.ndarray, slide: np.ndarray) -> np.ndarray:
    xx, yy, zz, yz, zx, xy = (row[:, ROWS.inertia_xx + k] for k in range(6))
    inertia = np.stack([xx, xy, zx, xy, yy, yz, zx, yz, zz], -1).reshape(-1, 3, 3)
    inertia = R @ inertia @ R.swapaxes(1, 2)
    h = (R @ row[:, ROWS.moment_x : ROWS.moment_z + 1, None])[:, :, 0]
    moved = _cross(turn, h)  # velocity of the centre of mass relative to the origin, times mass
    coupling = slide.swapaxes(1, 2) @ moved
    mass = row[:, ROWS.mass, None, None]
    return np.asarray(
        mass * (slide.swapaxes(1, 2) @ slide)
        + turn.swapaxes(1, 2) @ inertia @ turn
        + coupling
        + coupling.swapaxes(1, 2)
    )


def _cross(columns: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the cross products of all columns [B, 3, D] with vectors [B, 3]."""
    bx, by, bz = (b[:, k, None] for k in range(3))
    x, y, z = columns[:, 0], columns[:, 1], columns[:, 2]
    return np.stack([y * bz - z * by, z * bx - x * bz, x * by - y * bx], 1)


def quaternion_matrix(q: np.ndarray) -> np.ndarray:
    """Returns the matrices of unit quaternions [B, 4, ...], [B, 3, 3, ...]."""
    x, y, z, w = (q[:, k] for k in range(4))
    rows = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        *(2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        *(2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    ]
    return np.stack(rows, 1).reshape(len(q), 3, 3, *q.shape[2:])


def _about_z(angle: np.ndarray) -> np.ndarray:
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros_like(angle), np.ones_like(angle)
    return np.stack([c, -s, zero, s, c, zero, zero, zero, one], -1).reshape(-1, 3, 3)
