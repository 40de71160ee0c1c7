"""Portable kernels that update the parts of the state between two evaluations of the forces, and their adjoints.

Every update first writes the state and the force to the history, one row per evaluation. The adjoint reads these rows
in reverse order, restores the recorded state, and computes the adjoints of the old state and of the force from that of
the new state. It sums the adjoints of the state at the start of the step in `start_adj`, and those of velocities and
accelerations that later stages also use in `stage_adj`.

A rule that carries its force leaves the force of the last stage in place, for the first stage of the next step. The
adjoint of that first stage leaves the adjoint of the force, to which the last stage of the step before adds its own.

The array `clock` has [0] the first step of the captured graph, [1] its row in the history, [2] the steps of the whole
rollout, [3] whether to write the history, [4] the steps of a frame. `weights[s]` has the coefficients of stage s, see
`stage_weights`.
"""

from typing import Any, NamedTuple


class UpdateKernels(NamedTuple):
    """Kernels of one part of the state."""

    update: Any
    adjoint: Any
