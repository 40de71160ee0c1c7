"""Memory of the native rollout of rigid bodies: contact points, shapes, pushes, signals and anchors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradsim import bridge
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.layout import WORLDS_IN_LANES, Layout, lane_count
from gradsim.simulate.engine.pair_arrays import PairArrays, pair_arrays
from gradsim.simulate.engine.point_blocks import point_blocks, point_order
from gradsim.simulate.engine.rigid_rollout import RigidRollout
from gradsim.simulate.engine.signals import SignalArrays
from gradsim.simulate.engine.structures import RIGID_FORCES, RIGID_STATES, SIGNAL, SIZES, packed, table_of
from gradsim.simulate.engine.world_rollout import native_signal


class AnchorMemory(NamedTuple):
    """Memory of the anchors of rigid bodies."""

    row: int  # scalars of a row of the history, for a block of worlds
    fields: dict[str, Any]  # of the native structure
    arrays: tuple[Any, ...]  # that it points into


def rigid_rollout(
    layout: Layout,
    buffers: dict[str, Any],
    integrator: Integrator,
    batch: int,
    coupled: bool,
    signals: tuple[SignalArrays, ...],
) -> RigidRollout:
    """Returns the native rollout of all rigid bodies with their contacts and pushes.

    Args:
        layout: Constants and parameters of all worlds.
        buffers: Arrays of the states and their adjoints, by name such as "rigid.p_adj".
        integrator: Time integrator.
        batch: Worlds of all shards.
        coupled: Whether bodies advance together with the nodes of their world.
        signals: As from `signals`.
    """
    elements = layout.topology.elements
    signal_arrays, signal_fields = _signals(layout, signals)
    lanes = lane_count(layout.dtype) if batch >= WORLDS_IN_LANES and not coupled else 1
    constants = _constants(layout)
    empty = bridge.table((1, 0), layout.dtype, layout.device)
    families = {"contact": "rigid_contact", "shape": "shape", "push": "push", "drag": "drag", "body": "rigid"}
    parameters = {field: layout.parameters.get(family) or empty for field, family in families.items()}
    shapes, pushes = elements.get("shape", 0), elements.get("push", 0)
    own = SIZES.pair_scratch * shapes + SIZES.push_scratch * pushes
    step = SIZES.body_scratch + SIZES.stage_scratch * len(integrator.stages) + 4
    pairs = pair_arrays(layout, buffers, lanes, lane_count(layout.dtype)) if "pair" in elements else PairArrays()
    together = coupled or "pair" in elements or "link" in elements
    size = (elements["rigid"] * (own + step) if together else own) * lanes
    scratch = bridge.scalars((size,), layout.dtype, layout.device)
    anchors = _anchor_memory(layout, buffers, lanes)
    fields = {
        "world_count": layout.world_count,
        "body_count": elements["rigid"],
        "shape_count": shapes if "rigid_contact" in elements else 0,
        "touching_count": elements.get("rigid_contact", 0) // max(1, shapes),
        "push_count": pushes,
        "drag_count": elements.get("drag", 0),
        **signal_fields,
        **{name: array.ptr for name, array in constants.items()},
        **{field: table_of(table) for field, table in parameters.items()},
        **{
            f"{state}{suffix}": buffers[f"rigid.{state}{suffix}"].ptr
            for state in (*RIGID_STATES, *RIGID_FORCES)
            for suffix in ("", "_adj")
        },
        "scratch": scratch.array.ptr,
        **anchors.fields,
    }
    threads = elements["rigid"] * -(-layout.world_count // lanes)
    arrays = (*constants.values(), empty, scratch, *anchors.arrays, *signal_arrays)
    group = elements["rigid"] if "pair" in elements or "link" in elements else 1
    return RigidRollout(integrator, threads, lanes, fields, arrays, pairs, group, anchors.row)


def _signals(layout: Layout, signals: tuple[SignalArrays, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Returns arrays of the signals that move shapes and rigid bodies, and the fields of the native structure."""
    arrays: list[Any] = []
    fields: dict[str, Any] = {}
    for name, family in (("shape", "shape"), ("motion", "rigid_motion")):
        own = [native_signal(s) for s in signals if s.parameters is layout.parameters.get(family)]
        arrays.append(packed(own, SIGNAL))
        used = name == "motion" or "rigid_contact" in layout.topology.elements
        fields |= {f"{name}_signal_count": len(own) if used else 0, f"{name}_signals": arrays[-1].ptr}
    return arrays, fields


def _anchor_memory(layout: Layout, buffers: dict[str, Any], lanes: int) -> AnchorMemory:
    """Returns where the anchors of sticking friction are, in the state and in a row of the history."""
    topology, width = layout.topology, lane_count(layout.dtype)
    if "rigid_anchor" not in topology.elements:
        return AnchorMemory(0, {}, ())
    shapes, row = topology.elements["shape"], 0
    blocks: list[int] = []
    for body, points in enumerate(topology.arrays["rigid.sizes"].tolist()):
        size = 1 + (points if lanes > 1 else -(-points // width))  # a block for the flag
        anchored = ("rigid_anchor", topology.owner("rigid", body)) in topology.ranges
        blocks += [row + shape * size if anchored else -1 for shape in range(shapes)]
        row += shapes * size if anchored else 0
    own = layout.constant(np.array(blocks, np.int32)), layout.constant(topology.arrays["rigid_contact.anchors"])
    scratch = bridge.scalars((2, 3 * width * row), layout.dtype, layout.device)
    fields = {
        "anchor_count": topology.elements["rigid_anchor"],
        "anchor_row": 3 * width * row,
        "anchor_blocks": own[0].ptr,
        "anchor_elements": own[1].ptr,
        "anchor_scratch": scratch.array.ptr,
        **{f"xi{suffix}": buffers[f"rigid_anchor.xi{suffix}"].ptr for suffix in ("", "_adj")},
    }
    return AnchorMemory(3 * width * row, fields, (*own, scratch))


def _constants(layout: Layout) -> dict[str, Any]:
    """Returns contact points in blocks, kinds of shapes and pushed bodies, by field of the native structure."""
    arrays, width = layout.topology.arrays, lane_count(layout.dtype)
    sizes = arrays["rigid.sizes"].astype(np.int32)
    points = np.split(arrays["rigid.points"], np.cumsum(sizes)[:-1])
    none = np.empty(0, np.int32)
    moved = np.full(len(sizes), -1, dtype=np.int32)
    followed = arrays.get("rigid_motion.elements", none)
    moved[followed] = np.arange(len(followed))
    touching = np.full(len(sizes), -1, dtype=np.int32)
    touched = arrays.get("rigid_contact.bodies", none)[:: max(1, layout.topology.elements.get("shape", 0))]
    touching[touched] = np.arange(len(touched))
    constants = {
        "blocks": np.concatenate([[0], np.cumsum(-(-sizes // width))]).astype(np.int32),
        "sizes": sizes,
        "points": np.concatenate([point_blocks(own, width) for own in points]).ravel(),
        "point_order": np.concatenate([point_order(own, width) for own in points]),
        "forms": arrays["rigid.forms"],
        "kinds": arrays.get("shape.kinds", none),
        "flags": arrays.get("shape.flags", none),
        "moved": moved,
        "pushed": arrays.get("push.bodies", none),
        "dragged": arrays.get("drag.bodies", none),
        "touching": touching,
    }
    return {name: layout.constant(array) for name, array in constants.items()}
