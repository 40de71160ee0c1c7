"""A force of your own: charged bodies in an electric field, and the charge estimated from the motion.

The force is a Warp function of the state of one node. Its parameters are quantities of a dataclass, so they can be
tensors, unknowns or signals, and stand in scene files. Warp differentiates the function.
"""

from dataclasses import dataclass

import torch
import warp as wp

import gradsim as gs


def electric_force(x, v, t, charge, strength, frequency):
    """Force [N] on a node of charge [C] in a field [N/C] that oscillates with `frequency` [rad/s]."""
    return strength * (charge * wp.cos(frequency * t))


@gs.node_force(electric_force)
@dataclass(frozen=True, eq=False)
class ElectricField(gs.BodyForce):
    """A uniform, oscillating electric field that acts on the nodes of bodies."""

    charge: gs.Quantity = gs.quantity(0.0, "C", per="node")
    strength: gs.Quantity = gs.quantity((0.0, 0.0, 0.0), "N/C", shape=(3,), signal=True)
    frequency: gs.Quantity = gs.quantity(0.0, "rad/s", low=0.0)


def scene(charge):
    points, edges = gs.meshes.chain(0.4, 4)
    chain = gs.Springs("chain", points, edges, mass=0.01, stiffness=20.0, damping=0.01, pinned=[0])
    field = ElectricField("field", charge=charge, strength=(0.0, 0.0, 2.0), frequency=6.0)
    return gs.Scene([chain], forces=[field])


def motion(charge):
    return gs.simulate(scene(charge), frames=16, fps=30, substeps=32)["chain"].vertices


target = motion(0.03)
charge = torch.tensor(0.01, dtype=torch.float64, requires_grad=True)  # [C]
optimizer = torch.optim.LBFGS([charge], max_iter=20, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = ((motion(charge) - target) ** 2).sum()
    loss.backward()
    return loss


optimizer.step(closure)
print(f"charge {charge.item():.6f} C, true 0.03 C")
assert abs(charge.item() - 0.03) < 1e-6
