"""Contact between rigid bodies as the native rollouts read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsim import bridge
from gradsim.simulate.engine.point_blocks import point_blocks, point_order
from gradsim.simulate.engine.structures import DISTANCE_GRID, PAIRS, SIZES, packed, table_of
from gradsim.simulate.forces.pairs import touching

if TYPE_CHECKING:
    from gradsim.simulate.engine.layout import Layout

NEIGHBOURS = 32  # pairs in the list of neighbours, for each body
LISTED_FROM = 9  # bodies: fewer are tested pair by pair


@dataclass(frozen=True)
class PairArrays:
    """The native structure, and the arrays it points into."""

    fields: dict[str, Any] = field(default_factory=dict)  # of the native structure except for the history of anchors
    arrays: tuple[Any, ...] = ()
    anchor_row: int = 0  # scalars of a row of anchors, for a block of worlds
    structure: Any = None  # as a Warp array

    def with_history(self, anchors: Any) -> PairArrays:
        """Returns a copy with memory for the history of the anchors, [blocks of worlds, steps + 1, anchor_row]."""
        if not self.fields:
            return replace(self, structure=packed([], PAIRS))
        structure = PAIRS(**self.fields, anchors=anchors.ptr, anchor_rows=anchors.shape[1])
        return replace(self, arrays=(*self.arrays, anchors), structure=packed([structure], PAIRS))


def pair_arrays(layout: Layout, buffers: dict[str, Any], lanes: int, width: int) -> PairArrays:
    """Returns the contact between the rigid bodies of all worlds.

    Args:
        layout: Layout of the worlds.
        buffers: Arrays of the anchors of pairs and their adjoints, by name.
        lanes: Worlds per thread.
        width: Elements that a native kernel processes at once.
    """
    topology = layout.topology
    arrays, bodies, laws = topology.arrays, topology.elements["rigid"], topology.elements["pair"]
    shapes = {name: arrays[f"collider.{name}"] for name in ("shapes", "kinds", "sizes", "reach")}
    ends = np.cumsum(shapes["sizes"])[:-1]
    samples = zip(*(np.split(arrays[f"collider.{name}"], ends) for name in ("samples", "weights")), strict=True)
    blocks = np.concatenate([[0], np.cumsum(-(-shapes["sizes"] // width))])
    grids, coefficients = native_grids(layout, "collider")
    constants = {
        "groups": arrays["pair.groups"],
        "numbers": arrays["pair.numbers"],
        **shapes,
        "blocks": blocks.astype(np.int32),
        "samples": np.concatenate([point_blocks(own, width, weights) for own, weights in samples]).ravel(),
    }
    given = {name: layout.constant(array) for name, array in constants.items()}
    contacts = 2 * int(shapes["sizes"].max())
    neighbours = min(NEIGHBOURS * bodies, bodies * (bodies - 1) // 2) if bodies >= LISTED_FROM else 0
    per_world = bodies * (SIZES.collider_scratch + SIZES.neighbour_scratch) + laws * SIZES.law_scratch
    lists = bodies * SIZES.neighbour_integers + 2 * neighbours
    size = contacts * SIZES.sample_scratch * width + per_world * lanes + lists
    scratch = bridge.scalars((size,), layout.dtype, layout.device)
    anchors = _anchor_memory(layout, buffers, lanes, width)
    fields = {
        "group_count": int(arrays["pair.groups"].max()) + 1,
        "law_count": laws,
        "sample_capacity": contacts,
        "neighbour_capacity": neighbours,
        **{name: array.ptr for name, array in given.items()},
        "grids": grids.ptr,
        "law": table_of(layout.parameters["pair"]),
        "collider": table_of(layout.parameters["collider"]),
        "scratch": scratch.array.ptr,
        **anchors.fields,
    }
    owned = (*given.values(), grids, coefficients, scratch, *anchors.arrays)
    return PairArrays(fields, owned, anchors.anchor_row)


def _anchor_memory(layout: Layout, buffers: dict[str, Any], lanes: int, width: int) -> PairArrays:
    """Returns where the anchors of sticking friction are, in the state and in a row of the history."""
    topology = layout.topology
    if "pair_anchor" not in topology.elements:
        return PairArrays()
    arrays, bodies = topology.arrays, topology.elements["rigid"]
    elements, (first, second, _) = arrays["pair_anchor.firsts"], touching(topology)
    shapes = arrays["collider.shapes"][np.stack([first, second], 1)]
    counts = arrays["collider.sizes"][shapes]
    sizes = np.where(elements >= 0, counts if lanes > 1 else -(-counts // width), 0)
    ends = sizes.cumsum().reshape(-1, 2)
    pairs = np.full((bodies, bodies), -1, np.int32)
    pairs[first, second] = np.arange(len(first))
    samples = np.split(arrays["collider.samples"], np.cumsum(arrays["collider.sizes"])[:-1])
    constants = {
        "anchor_pairs": pairs.ravel(),
        "anchor_blocks": np.where(sizes > 0, ends - sizes, -1).astype(np.int32).ravel(),
        "anchor_elements": elements.ravel(),
        "anchor_shapes": shapes.astype(np.int32).ravel(),
        "sample_order": np.concatenate([point_order(own, width) for own in samples]),
    }
    given = {name: layout.constant(array) for name, array in constants.items()}
    flags = -(-elements.size // width) * width
    row = flags + 3 * width * int(ends[-1, -1])
    scratch = bridge.scalars((2, row), layout.dtype, layout.device)
    fields = {
        "anchor_count": topology.elements["pair_anchor"],
        "anchor_numbers": elements.size,
        "anchor_flags": flags,
        "anchor_row": row,
        **{name: array.ptr for name, array in given.items()},
        **{f"xi{suffix}": buffers[f"pair_anchor.xi{suffix}"].ptr for suffix in ("", "_adj")},
        "anchor_scratch": scratch.array.ptr,
    }
    return PairArrays(fields, (*given.values(), scratch), row)


def native_grids(layout: Layout, family: str) -> tuple[Any, Any]:
    """Returns the native structures of the distance grids of a family's shapes, and their coefficients."""
    arrays = layout.topology.arrays
    coefficients = layout.constant(arrays[f"{family}.coefficients"])
    counts = arrays[f"{family}.grid_shapes"].astype(np.int64)
    starts = np.cumsum(counts.prod(1)) - counts.prod(1)
    size = layout.dtype.itemsize
    structures = []
    for (nx, ny, nz), place, start in zip(counts, arrays[f"{family}.grid_places"], starts, strict=True):
        grid = DISTANCE_GRID(nx=int(nx), ny=int(ny), nz=int(nz), per_spacing=place[3], padding=place[4])
        grid.origin[:] = place[:3]
        grid.coefficients = (coefficients.ptr or 0) + int(start) * size
        structures.append(grid)
    return packed(structures, DISTANCE_GRID), coefficients
