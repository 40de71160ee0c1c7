"""The benchmark's beam in Newton, in the configuration of `newton_rollout`.

One difference remains: Newton damps the rate of F, gradsim the rate of the strain, which makes a force evaluation a
fifth more expensive. Without damping the motions and gradients agree to rounding, as a test verifies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.newton_rollout import NewtonParticles, import_newton, node_masses
from benchmarks.scenes import Beam


class NewtonBeam(NewtonParticles):
    """A rollout of the beam.

    Args:
        beam: The scene.
        steps: Steps of the rollout.
    """

    def __init__(self, beam: Beam, *, steps: int):
        super().__init__(_build_model(import_newton(), beam), beam, steps=steps)

    @property
    def lame_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of mu and lam after `forward_backward()`, [T] each."""
        gradients = self._model.tet_materials.grad.numpy()
        return gradients[:, 0], gradients[:, 1]


def _build_model(newton: Any, beam: Beam) -> Any:
    builder = newton.ModelBuilder(gravity=(0.0, beam.gravity, 0.0))
    masses = node_masses(beam.density * beam.mesh.volumes, beam.mesh.tets, beam.pinned)
    for point, mass in zip(beam.mesh.vertices.tolist(), masses.tolist(), strict=True):
        builder.add_particle(tuple(point), (0.0, 0.0, 0.0), mass)
    for tet in beam.mesh.tets.tolist():
        builder.add_tetrahedron(*tet, k_mu=beam.mu, k_lambda=beam.lam, k_damp=beam.damping)
    model = builder.finalize(device="cpu", requires_grad=True)
    model.particle_grid = None  # no contact between particles
    return model
