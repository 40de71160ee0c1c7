"""The benchmark's sheet in Newton, in the configuration of `newton_rollout`.

The number and placement of the elements are the same, but the constitutive laws differ. Newton's membrane has a linear
shear term; its coefficients are chosen so that both laws agree at small strains, as a test verifies. Newton damps the
rate of F. Newton bends each inner edge independently, while gradsim couples the three angles of every triangle:
gradsim evaluates twice as many angles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from benchmarks.newton_rollout import NewtonParticles, import_newton, node_masses
from benchmarks.scenes import Sheet


class NewtonSheet(NewtonParticles):
    """A rollout of the sheet.

    Args:
        sheet: The scene.
        steps: Steps of the rollout.
    """

    def __init__(self, sheet: Sheet, *, steps: int):
        super().__init__(_build_model(import_newton(), sheet), sheet, steps=steps)

    @property
    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of the triangles' materials and of the edges' bending after `forward_backward()`."""
        return self._model.tri_materials.grad.numpy(), self._model.edge_bending_properties.grad.numpy()


def _build_model(newton: Any, sheet: Sheet) -> Any:
    mesh = sheet.mesh
    builder = newton.ModelBuilder(gravity=(0.0, sheet.gravity, 0.0))
    masses = node_masses(sheet.density * mesh.areas, mesh.faces, sheet.pinned)
    for point, mass in zip(mesh.vertices.tolist(), masses.tolist(), strict=True):
        builder.add_particle(wp.vec3(*point), wp.vec3(), mass)
    mu, lam = 2.0 / 3.0 * sheet.mu, sheet.lam + 2.0 / 9.0 * sheet.mu  # gradsim's law linearized at small strains
    material = {"tri_ke": mu, "tri_ka": lam, "tri_kd": sheet.damping, "tri_drag": 0.0, "tri_lift": 0.0}
    for face in mesh.faces.tolist():
        builder.add_triangle(*face, **material)
    # Newton's stiffness is a torque per edge length: this equals gradsim's coefficient for edges as long as a cell.
    bending = {"edge_ke": sheet.stiffness / sheet.cell, "edge_kd": sheet.bending_damping / sheet.cell}
    for hinge in mesh.hinges.tolist():
        builder.add_edge(*hinge, **bending)
    model = builder.finalize(device="cpu", requires_grad=True)
    model.particle_grid = None  # no contact between particles
    return model
