"""A soft gripper lifts a box: two soft fingers close on it, hold it by friction, and rise.

The outer faces of the fingers follow a prescribed motion; everything else follows from contact. The friction between
nodes and rigid bodies is regularized, so that the box slips slowly, at its weight over the sum of all `kf`.
"""

import torch

import gradsim as gs

F64 = torch.float64
finger = gs.meshes.tet_box((0.04, 0.12, 0.06), (2, 4, 2))
rubber = gs.NeoHookean.from_young(6e4, 0.4, damping=20.0)


def gripper_scene(mass: float) -> gs.Scene:
    """Both fingers move inwards by 22 mm in the first third of the time, and up by 150 mm in the rest."""
    zero = torch.zeros(7, dtype=F64)
    inward = torch.tensor([0.0, 0.011, 0.022, 0.022, 0.022, 0.022, 0.022], dtype=F64)
    up = torch.tensor([0.0, 0.0, 0.0, 0.05, 0.1, 0.15, 0.15], dtype=F64)
    box = gs.Rigid("box", gs.meshes.box((0.08, 0.08, 0.08)), mass=mass, position=(0.0, 0.0399, 0.0))
    bodies: list[gs.Body] = [box]
    touches = []
    for side, sign in (("left", -1.0), ("right", 1.0)):
        bodies.append(
            gs.Soft(
                side,
                finger,
                density=1000.0,
                material=rubber,
                position=(sign * 0.07, 0.08, 0.0),
                pinned=gs.Region(high=(-0.019, None, None)) if sign < 0 else gs.Region(low=(0.019, None, None)),
                motion=gs.Motion(gs.Signal(torch.stack([-sign * inward, up, zero], -1))),
            )
        )
        touches.append(gs.NodeContact(f"{side}_touch", body=side, rigid="box", ke=500.0, kd=0.3, kf=15.0, mu=1.0))
    return gs.Scene(bodies, ground=gs.Ground(ke=1e3, kd=2.0), forces=touches)


lifted = gs.simulate(gripper_scene(mass=0.1), frames=25, fps=20, substeps=750)
height = lifted["box"].position[-1, 1] - 0.04
print(f"the fingers rose by 150 mm, the box by {1e3 * height.item():.0f} mm")
assert height > 0.13
