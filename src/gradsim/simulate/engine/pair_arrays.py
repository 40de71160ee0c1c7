"""Contact between rigid bodies as the native rollouts read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsim import bridge
from gradsim.simulate.engine.point_blocks import point_blocks
from gradsim.simulate.engine.structures import DISTANCE_GRID, PAIRS, SIZES, packed, table_of

if TYPE_CHECKING:
    from gradsim.simulate.engine.layout import Layout

NEIGHBOURS = 32  # pairs in the list of neighbours, for each body
LISTED_FROM = 9  # bodies: fewer are tested pair by pair


@dataclass(frozen=True)
class PairArrays:
    """The native structure, and the arrays it points into."""

    structure: Any  # as a Warp array
    arrays: tuple[Any, ...]


def no_pairs() -> PairArrays:
    """Returns the arrays of worlds in which rigid bodies do not touch each other."""
    return PairArrays(packed([], PAIRS), ())


def pair_arrays(layout: Layout, lanes: int, width: int) -> PairArrays:
    """Returns the contact between the rigid bodies of all worlds.

    Args:
        layout: Layout of the worlds.
        lanes: Worlds per thread.
        width: Elements that a native kernel processes at once.
    """
    topology = layout.topology
    arrays, bodies, laws = topology.arrays, topology.elements["rigid"], topology.elements["pair"]
    shapes = {name: arrays[f"collider.{name}"] for name in ("shapes", "kinds", "sizes", "reach")}
    ends = np.cumsum(shapes["sizes"])[:-1]
    samples = zip(*(np.split(arrays[f"collider.{name}"], ends) for name in ("samples", "weights")), strict=True)
    blocks = np.concatenate([[0], np.cumsum(-(-shapes["sizes"] // width))])
    grids, coefficients = _grids(layout)
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
    structure = PAIRS(
        group_count=int(arrays["pair.groups"].max()) + 1,
        law_count=laws,
        sample_capacity=contacts,
        neighbour_capacity=neighbours,
        **{name: array.ptr for name, array in given.items()},
        grids=grids.ptr,
        law=table_of(layout.parameters["pair"]),
        collider=table_of(layout.parameters["collider"]),
        scratch=scratch.array.ptr,
    )
    return PairArrays(packed([structure], PAIRS), (*given.values(), grids, coefficients, scratch))


def _grids(layout: Layout) -> tuple[Any, Any]:
    """Returns the native structures of the distance grids of all shapes, and their coefficients."""
    arrays = layout.topology.arrays
    coefficients = layout.constant(arrays["collider.coefficients"])
    counts = arrays["collider.grid_shapes"].astype(np.int64)
    starts = np.cumsum(counts.prod(1)) - counts.prod(1)
    size = layout.dtype.itemsize
    structures = []
    for (nx, ny, nz), place, start in zip(counts, arrays["collider.grid_places"], starts, strict=True):
        grid = DISTANCE_GRID(nx=int(nx), ny=int(ny), nz=int(nz), per_spacing=place[3], padding=place[4])
        grid.origin[:] = place[:3]
        grid.coefficients = (coefficients.ptr or 0) + int(start) * size
        structures.append(grid)
    return packed(structures, DISTANCE_GRID), coefficients
