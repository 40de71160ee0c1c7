"""Scenes of several tests."""

import gradsim as gs


def beam(mu, *, cells=(4, 2, 2), lam=2e4, damping=5.0, **more):
    """Returns a scene with a soft beam, pinned at one end."""
    mesh = gs.meshes.tet_box((0.1 * cells[0], 0.1 * cells[1], 0.1 * cells[2]), cells)
    edge = -0.05 * cells[0] + 1e-6
    body = gs.Soft(
        "beam", mesh, 500.0, material=gs.NeoHookean(mu, lam, damping), pinned=gs.Region(high=(edge, None, None)), **more
    )
    return gs.Scene([body])
