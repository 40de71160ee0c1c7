"""Elements of soft bodies; `simulate/forces/tetrahedra.py` and `simulate/forces/smoothed_tetrahedra.py` define them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class LinearTet:
    """Constant-strain tetrahedra: the cheapest element.

    It is too stiff: a beam of a few elements across deflects by 60-90 % of what it should at a Poisson ratio of 0.3 to
    0.45, and by a fraction of that near 0.5 (locking). A modulus fitted with it depends on the mesh.

    Example:
        `gs.Soft("beam", gs.meshes.tet_box((1.0, 0.2, 0.2), (5, 1, 1)), density=1e3, element=gs.LinearTet())`
    """


@dataclass(frozen=True)
class SmoothedTet:
    """Tetrahedra with strains averaged over edges and changes of volume averaged over nodes.

    The mean deformation gradient around every edge resists shear, the mean change of volume around every node resists
    compression. Nearly incompressible bodies do not lock, and coarse meshes bend as they should. Mesh, nodes and
    parameters are those of `LinearTet`.

    Example:
        `gs.Soft("beam", gs.meshes.tet_box((1.0, 0.2, 0.2), (5, 1, 1)), density=1e3, element=gs.SmoothedTet())`
    """


TetElement: TypeAlias = LinearTet | SmoothedTet
