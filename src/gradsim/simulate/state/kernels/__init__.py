"""Portable kernels that update the parts of the state between two evaluations of the forces, and their adjoints.

Every update first records the state and the force it starts from in the history, one row per evaluation; the adjoint
goes through these rows backwards, restores the recorded state, and turns the adjoint of the new state into that of the
old one and of the force. The adjoints of a step's start, and of velocities and accelerations that later stages use too,
are summed in `start_adj` and `stage_adj` meanwhile.

Rows and steps are counted from the clock: [0] step, [1] history row at the start of the captured graph, [2] steps of
the whole rollout, [3] whether to keep the history. `weights[s]` holds the coefficients of stage s: those of the
accelerations, of the velocities, and of the new velocity.
"""

from typing import Any, NamedTuple


class UpdateKernels(NamedTuple):
    """Kernels of one part of the state."""

    update: Any
    adjoint: Any
