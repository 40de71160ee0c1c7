"""Tetrahedral mesh of a gear: a ring of cells, with a tooth on every second cell."""

from __future__ import annotations

import numpy as np

from gradsim.scene.errors import OutOfRange
from gradsim.scene.mesh_builders import mesh_builder
from gradsim.scene.meshes import TetMesh, kuhn_paths, oriented


@mesh_builder
def tet_gear(
    inner: float = 1.0, root: float = 1.4, tip: float = 1.85, width: float = 2.0, *, teeth: int = 16, layers: int = 4
) -> TetMesh:
    """Creates a gear about the z axis, six tetrahedra per cell, symmetric under reflection z -> -z.

    Example:
        `gs.meshes.tet_gear()`

    Args:
        inner, root, tip: Radii of the hole, of the ring and of the teeth [m].
        width: Length along z [m].
        teeth: Number of teeth; teeth and gaps are equally wide.
        layers: Number of cells along z, even.
    """
    if not 0.0 < inner < root < tip:
        raise OutOfRange("inner, root, tip", (inner, root, tip), "need 0 < inner < root < tip [m]")
    if not width > 0.0:
        raise OutOfRange("width", width, "must be > 0 [m]")
    if teeth < 3:
        raise OutOfRange("teeth", teeth, "must be a whole number >= 3")
    if layers < 2 or layers % 2:
        raise OutOfRange(
            "layers", layers, "must be an even number >= 2, so that the mirror plane lies between two layers"
        )
    sectors = 2 * teeth
    radii = np.array([inner, root, tip])
    angle = 2 * np.pi * np.arange(sectors) / sectors
    z, r, a = np.meshgrid(np.arange(layers + 1) / layers - 0.5, radii, angle, indexing="ij")
    vertices = np.stack([r * np.cos(a), r * np.sin(a), width * z], axis=-1).reshape(-1, 3)

    ring = np.stack(np.meshgrid(np.arange(layers), [0], np.arange(sectors), indexing="ij"), -1).reshape(-1, 3)
    tooth = np.stack(np.meshgrid(np.arange(layers), [1], np.arange(0, sectors, 2), indexing="ij"), -1).reshape(-1, 3)
    cell = np.concatenate([ring, tooth])
    upper = cell[:, 0] >= layers // 2  # cut from the top downwards, as the mirror image of the lower half
    first = np.where(upper, cell[:, 0] + 1, cell[:, 0])
    tets = []
    for path in kuhn_paths():
        level = first[:, None] + np.where(upper, -1, 1)[:, None] * path[:, 0]
        ring_number = cell[:, 1:2] + path[:, 1]
        sector = (cell[:, 2:] + path[:, 2]) % sectors
        tets.append((level * 3 + ring_number) * sectors + sector)
    return oriented(vertices, np.stack(tets, axis=1).reshape(-1, 4))
