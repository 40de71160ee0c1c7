"""Friction between two boxes, from a video of one that slides on the other.

A box is thrown on a plank that moves freely on smooth ground. Friction slows the box and drags the plank along, until
both move equally and the contact sticks. `gradsim reproduce touching` repeats it with the closed form of Coulomb's law
and with a path tracer in place of this simulator and its renderer.
"""

from typing import Any

import gradsim as gs

MU = 0.35  # the true friction
TIME = {"fps": 20, "substeps": 250}


def sliding(mu: Any) -> gs.Scene:
    """A box of 1 kg that is thrown on a plank of 2 kg."""
    looks = [gs.Look(color=color) for color in ((0.8, 0.4, 0.2), (0.3, 0.5, 0.7))]
    smooth = {"ground": gs.Contact(ke=2e5, kd=150.0, mu=0.0, delta=5e-5)}
    start = {"position": (0.0, 0.109865, 0.0), "velocity": (1.2, 0.0, 0.0)}
    box = gs.Rigid("box", gs.meshes.box((0.16, 0.1, 0.16)), mass=1.0, look=looks[0], contact=smooth, **start)
    flat = gs.meshes.box((0.8, 0.06, 0.3))
    plank = gs.Rigid("plank", flat, mass=2.0, position=(0.2, 0.02994, 0.0), look=looks[1], contact=smooth)
    contact = gs.Contact(ke=2e5, kd=250.0, mu=mu, delta=5e-5, friction=gs.Sticking())
    camera = gs.Camera(eye=(0.25, 0.9, 1.6), target=(0.25, 0.05, 0.0), fov=38)
    return gs.Scene([box, plank], gs.Ground(mu=0.0), camera=camera, pairs={"box-plank": contact})


true = sliding(MU)
video = gs.render(true, gs.simulate(true, frames=12, **TIME), size=(32, 48))
fit = gs.estimate(sliding(gs.unknown(0.2, low=0.05, high=1.0)), video, **TIME)
print(fit)
found = float(fit.values["pairs.box-plank.mu"])
print(f"friction {found:.7f}, truth {MU}, relative error {abs(found / MU - 1):.1e}")
assert abs(found / MU - 1) < 1e-6
