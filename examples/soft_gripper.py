"""A soft gripper lifts a box: two soft fingers close on it, hold it by friction, and rise.

The outer faces of the fingers follow a prescribed motion; everything else follows from contact. The friction between
nodes and rigid bodies is regularized, so that the box slips slowly. How much it slips depends on how far the fingers
close, and the gradient with respect to that distance comes from one backward pass.
"""

import torch

import gradsim as gs

F64 = torch.float64
finger = gs.meshes.tet_box((0.04, 0.12, 0.06), (2, 4, 2))
rubber = gs.NeoHookean.from_young(6e4, 0.4, damping=20.0)


def gripper_scene(closing: torch.Tensor) -> gs.Scene:
    """Both fingers move inwards by a distance [m] in the first third of the time, and up by 0.15 m in the rest."""
    still, zero = torch.zeros((), dtype=F64), torch.zeros(7, dtype=F64)
    inward = torch.stack([still, closing / 2, closing, closing, closing, closing, closing])
    up = torch.tensor([0.0, 0.0, 0.0, 0.05, 0.1, 0.15, 0.15], dtype=F64)
    box = gs.Rigid("box", gs.meshes.box((0.08, 0.08, 0.08)), mass=0.1, position=(0.0, 0.0399, 0.0))
    bodies: list[gs.Body] = [box]
    touches = []
    for side, sign in (("left", -1.0), ("right", 1.0)):
        bodies.append(
            gs.Soft(
                side,
                finger,
                density=300.0,
                material=rubber,
                position=(sign * 0.07, 0.08, 0.0),
                pinned=gs.Region(high=(-0.019, None, None)) if sign < 0 else gs.Region(low=(0.019, None, None)),
                motion=gs.Motion(gs.Signal(torch.stack([-sign * inward, up, zero], -1))),
            )
        )
        touches.append(gs.NodeContact(f"{side}_touch", body=side, rigid="box", ke=500.0, kd=0.3, kf=15.0, mu=1.0))
    return gs.Scene(bodies, ground=gs.Ground(ke=1e3, kd=2.0), forces=touches)


closing = torch.tensor(0.022, dtype=F64, requires_grad=True)
lifted = gs.simulate(gripper_scene(closing), frames=25, fps=20, substeps=300)
height = lifted["box"].position[-1, 1] - 0.04
slip = 0.15 - height
slip.backward()
print(f"the fingers rose by 150 mm, the box by {1e3 * height.item():.0f} mm")
print(f"d slip / d closing distance = {closing.grad.item():.2f}")
assert height > 0.13
