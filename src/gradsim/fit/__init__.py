"""From observations to answers: unknowns, optimizers, estimates and what they are worth."""
