"""Friction between two boxes, from a video of one that slides on the other.

A box is thrown on a plank that moves freely on smooth ground. Friction slows the box and drags the plank along, until
both move equally and the contact sticks. The video is made twice: by this simulator, and from the closed form of
Coulomb's law, x = v t - mu g t^2 / 2 until both speeds agree, with positions that no simulation has computed.
"""

from typing import Any

import numpy as np

import gradsim as gs

MU, SPEED, MASSES = 0.35, 1.2, (1.0, 2.0)  # truth, of the box [m/s], of box and plank [kg]
TIME = {"fps": 20, "substeps": 250}
FRAMES, G, PLANK = 12, 9.81, 0.06  # thickness of the plank [m]
CAMERA = gs.Camera(eye=(0.25, 0.9, 1.6), target=(0.25, 0.05, 0.0), fov=38)


def bodies(**motion: Any) -> list[gs.Rigid]:
    """Box and plank, with further fields by name."""
    looks = [gs.Look(color=color) for color in ((0.8, 0.4, 0.2), (0.3, 0.5, 0.7))]
    ground = {"ground": gs.Contact(ke=2e5, kd=150.0, mu=0.0, delta=5e-5)}
    box = {"mass": MASSES[0], "position": (0.0, PLANK + 0.049865, 0.0), "look": looks[0], "contact": ground}
    plank = {"mass": MASSES[1], "position": (0.2, PLANK / 2 - 6e-5, 0.0), "look": looks[1], "contact": ground}
    top = gs.Rigid("box", gs.meshes.box((0.16, 0.1, 0.16)), **box, **motion.get("box", {}))
    return [top, gs.Rigid("plank", gs.meshes.box((0.8, PLANK, 0.3)), **plank, **motion.get("plank", {}))]


def sliding(mu: Any) -> gs.Scene:
    """The scene whose friction is estimated."""
    contact = gs.Contact(ke=2e5, kd=250.0, mu=mu, delta=5e-5, friction=gs.Sticking())
    thrown = bodies(box={"velocity": (SPEED, 0.0, 0.0)})
    return gs.Scene(thrown, gs.Ground(mu=0.0), camera=CAMERA, pairs={"box-plank": contact})


def closed_form() -> gs.Scene:
    """The same motion, prescribed."""
    t = np.arange(FRAMES) / TIME["fps"]
    end = SPEED / (MU * G * (1 + MASSES[0] / MASSES[1]))  # of sliding [s]
    slid, later = np.minimum(t, end), np.maximum(t - end, 0.0)
    speed = SPEED - MU * G * end
    paths = (SPEED * slid - MU * G * slid**2 / 2, MU * G * MASSES[0] / MASSES[1] * slid**2 / 2)
    along = [np.stack([path + speed * later, 0 * t, 0 * t], -1) for path in paths]
    moved = [{"motion": gs.Motion(displacement=gs.Signal(path))} for path in along]
    return gs.Scene(bodies(box=moved[0], plank=moved[1]), gs.Ground(mu=0.0), camera=CAMERA, pairs=False)


for name, scene, bar in (("own video", sliding(MU), 1e-6), ("closed form", closed_form(), 2e-3)):
    video = gs.render(scene, gs.simulate(scene, frames=FRAMES, **TIME), size=(32, 48))
    fit = gs.estimate(sliding(gs.unknown(0.2, low=0.05, high=1.0)), video, **TIME)
    found = float(fit.values["pairs.box-plank.mu"])
    print(fit)
    print(f"{name}: friction {found:.7f}, truth {MU}, relative error {abs(found / MU - 1):.1e}")
    assert abs(found / MU - 1) < bar
