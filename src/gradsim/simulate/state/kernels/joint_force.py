"""Forces of joints: spring, damping, dry friction, limits and motor, with their adjoints; see `gs.Revolute`."""

from typing import Any

import warp as wp

from gradsim.simulate.forces.family import types_of

PASSIVE_AND_MOTOR = (
    "stiffness", "rest", "damping", "armature", "friction", "slip",
    "low", "high", "limit_stiffness", "limit_damping", "limit_width",
    "force", "target", "gain", "target_rate", "rate_gain",
)  # fmt: skip


def joint_force_functions(real: Any, first: int) -> dict[str, Any]:
    """Returns the Warp functions of the forces.

    Args:
        real: Scalar type.
        first: Row of the first of these parameters in the table.
    """
    types = types_of(real)
    vec3, table, quat = types.vec3, types.table, types.quat
    zero, one, two, three, six = (real(a) for a in (0.0, 1.0, 2.0, 3.0, 6.0))
    at = {name: first + k for k, name in enumerate(PASSIVE_AND_MOTOR)}
    STIFFNESS, REST, DAMPING, FRICTION, SLIP = (at[n] for n in ("stiffness", "rest", "damping", "friction", "slip"))
    LOW, HIGH, LIMIT, LIMIT_DAMPING, WIDTH = (at[n] for n in PASSIVE_AND_MOTOR[6:11])
    FORCE, TARGET, GAIN, TARGET_RATE, RATE_GAIN = (at[n] for n in PASSIVE_AND_MOTOR[11:])

    @wp.func
    def ramp(depth: real, width: real):
        e = wp.max(depth, zero)
        t = wp.min(e, width)
        return t * t / (two * width) + (e - t)

    @wp.func
    def ramp_slope(depth: real, width: real):
        return wp.clamp(depth / width, zero, one)

    @wp.func
    def smoothstep(t: real):
        return t * t * (three - two * t)

    @wp.func
    def joint_force(joint: table, e: int, q: real, v: real):
        below = joint[LOW, e] - q
        above = q - joint[HIGH, e]
        width = joint[WIDTH, e]
        elastic = joint[LIMIT, e] * (ramp(below, width) - ramp(above, width))
        engaged = smoothstep(ramp_slope(below, width)) + smoothstep(ramp_slope(above, width))
        dry = v / wp.sqrt(v * v + joint[SLIP, e] * joint[SLIP, e])
        motor = joint[FORCE, e] + joint[GAIN, e] * (joint[TARGET, e] - q)
        motor = motor + joint[RATE_GAIN, e] * (joint[TARGET_RATE, e] - v)
        passive = joint[STIFFNESS, e] * (q - joint[REST, e]) + joint[DAMPING, e] * v + joint[FRICTION, e] * dry
        return motor - passive + elastic - joint[LIMIT_DAMPING, e] * engaged * v

    @wp.func
    def add(grad: table, row: int, e: int, value: real):
        grad[row, e] = grad[row, e] + value

    @wp.func
    def joint_force_adjoint(joint: table, e: int, q: real, v: real, b: real, grad: table):
        """Adds to the adjoints of the parameters; returns those of q and v, and zero."""
        add(grad, FORCE, e, b)
        add(grad, GAIN, e, b * (joint[TARGET, e] - q))
        add(grad, TARGET, e, b * joint[GAIN, e])
        add(grad, RATE_GAIN, e, b * (joint[TARGET_RATE, e] - v))
        add(grad, TARGET_RATE, e, b * joint[RATE_GAIN, e])
        add(grad, STIFFNESS, e, -b * (q - joint[REST, e]))
        add(grad, REST, e, b * joint[STIFFNESS, e])
        add(grad, DAMPING, e, -b * v)
        slip = joint[SLIP, e]
        root = one / wp.sqrt(v * v + slip * slip)
        cube = joint[FRICTION, e] * b * root * root * root
        add(grad, FRICTION, e, -b * v * root)
        add(grad, SLIP, e, cube * v * slip)
        width = joint[WIDTH, e]
        below = joint[LOW, e] - q
        above = q - joint[HIGH, e]
        s = ramp_slope(below, width)
        t = ramp_slope(above, width)
        engaged = smoothstep(s) + smoothstep(t)
        k = b * joint[LIMIT, e]
        c = b * joint[LIMIT_DAMPING, e] * v
        add(grad, LIMIT, e, b * (ramp(below, width) - ramp(above, width)))
        add(grad, LIMIT_DAMPING, e, -b * engaged * v)
        by_below = k * s - c * six * s * (one - s) / width
        by_above = -k * t - c * six * t * (one - t) / width
        add(grad, LOW, e, by_below)
        add(grad, HIGH, e, -by_above)
        add(grad, WIDTH, e, k * (t * t - s * s) / two + c * six * (s * s * (one - s) + t * t * (one - t)) / width)
        q_adj = by_above - by_below - b * (joint[GAIN, e] + joint[STIFFNESS, e])
        rates = joint[RATE_GAIN, e] + joint[DAMPING, e] + joint[LIMIT_DAMPING, e] * engaged
        return vec3(q_adj, -b * rates - cube * slip * slip, zero)

    @wp.func
    def ball_torque(joint: table, e: int, q: quat, v: vec3):
        dry = joint[FRICTION, e] / wp.sqrt(wp.dot(v, v) + joint[SLIP, e] * joint[SLIP, e])
        return vec3(q[0], q[1], q[2]) * (-two * joint[STIFFNESS, e] * q[3]) - v * (joint[DAMPING, e] + dry)

    @wp.func
    def ball_torque_adjoint_q(joint: table, e: int, q: quat, v: vec3, b: vec3, grad: table):
        """Adds to the adjoint of the stiffness; returns that of the quaternion."""
        axis = vec3(q[0], q[1], q[2])
        k = -two * joint[STIFFNESS, e]
        add(grad, STIFFNESS, e, -two * q[3] * wp.dot(axis, b))
        return quat(b[0] * k * q[3], b[1] * k * q[3], b[2] * k * q[3], k * wp.dot(axis, b))

    @wp.func
    def ball_torque_adjoint_v(joint: table, e: int, q: quat, v: vec3, b: vec3, grad: table):
        """Adds to the adjoints of damping and friction; returns that of the velocity."""
        slip = joint[SLIP, e]
        root = one / wp.sqrt(wp.dot(v, v) + slip * slip)
        slow = wp.dot(v, b)
        cube = joint[FRICTION, e] * slow * root * root * root
        add(grad, DAMPING, e, -slow)
        add(grad, FRICTION, e, -slow * root)
        add(grad, SLIP, e, cube * slip)
        return v * cube - b * (joint[DAMPING, e] + joint[FRICTION, e] * root)

    return {
        "joint_force": joint_force,
        "joint_force_adjoint": joint_force_adjoint,
        "ball_torque": ball_torque,
        "ball_torque_adjoint_q": ball_torque_adjoint_q,
        "ball_torque_adjoint_v": ball_torque_adjoint_v,
    }
