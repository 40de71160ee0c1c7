"""The same sheet in Newton: its membrane triangles and its bending edges, in the configuration of `newton_peer`.

The elements are as many and stand in the same places, but the laws are not the same. Newton's membrane has a linear
shear term, and is given the coefficients that make the two equal for small strains, where a test holds them to it; it
damps the rate of F. Its edges bend each for itself, one angle an inner edge, where gradsim couples the three angles of
every triangle: gradsim has twice as many angles to work out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.bench.newton_peer import NewtonParticles, import_newton

if TYPE_CHECKING:
    from gradsim.bench.cloth import Sheet


class NewtonSheet(NewtonParticles):
    """A sheet's rollout; `graph` records `forward` or `both`.

    Args:
        sheet: What to simulate.
        steps: Steps of the rollout.
    """

    def __init__(self, sheet: Sheet, *, steps: int):
        super().__init__(_model(import_newton(), sheet), sheet, steps=steps, weights=sheet.weights)

    @property
    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of the triangles' materials and of the edges' bending after `both()`."""
        return self._model.tri_materials.grad.numpy(), self._model.edge_bending_properties.grad.numpy()


def _model(newton: Any, sheet: Sheet) -> Any:
    """The sheet as Newton's model: particles, of which those without mass stay where they are, triangles and edges."""
    mesh = sheet.mesh
    builder = newton.ModelBuilder(gravity=(0.0, sheet.gravity, 0.0))
    masses = np.bincount(mesh.faces.ravel(), weights=np.repeat(sheet.density * mesh.areas / 3.0, 3))
    masses[sheet.pinned] = 0.0
    for point, mass in zip(mesh.vertices.tolist(), masses.tolist(), strict=True):
        builder.add_particle(wp.vec3(*point), wp.vec3(), mass)
    mu, lam = 2.0 / 3.0 * sheet.mu, sheet.lam + 2.0 / 9.0 * sheet.mu  # what gradsim's law is for small strains
    law = {"tri_ke": mu, "tri_ka": lam, "tri_kd": sheet.damping, "tri_drag": 0.0, "tri_lift": 0.0}
    for face in mesh.faces.tolist():
        builder.add_triangle(*face, **law)
    # A torque a length of edge: as stiff as gradsim's coefficient of the sheet where an edge is a cell long.
    bending = {"edge_ke": sheet.stiffness / sheet.cell, "edge_kd": sheet.bending_damping / sheet.cell}
    for hinge in mesh.hinges.tolist():
        builder.add_edge(*hinge, **bending)
    model = builder.finalize(device="cpu", requires_grad=True)
    model.particle_grid = None  # no contacts between particles
    return model
