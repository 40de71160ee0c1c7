"""Mass and restitution from a video of two balls that collide.

A collision determines the ratio of the masses and the restitution, not the masses: without another force, masses and
stiffness times any factor move equally. With one mass known the estimate finds the other. With none, and contact that
no one has measured (`roughly=["contact"]`), the verdict names the ratio.
"""

from typing import Any

import gradsim as gs

TRUTH = {"right.mass": 0.3, "pairs.left-right.restitution": 0.7}
TIME = {"fps": 20, "substeps": 100}


def collision(mass: Any, restitution: Any, left_mass: Any = 0.5) -> gs.Scene:
    """A ball that flies into another one, off centre, seen from above."""
    looks = [gs.Look(color=color) for color in ((0.8, 0.3, 0.2), (0.2, 0.4, 0.8))]
    start = {"position": (-0.4, 0.0, 0.06), "velocity": (1.5, 0.0, 0.0)}
    left = gs.Ball("left", radius=0.1, mass=left_mass, look=looks[0], **start)
    right = gs.Ball("right", radius=0.12, mass=mass, look=looks[1])
    contact = gs.Contact(ke=1e4, mu=0.0, restitution=restitution)
    camera = gs.Camera(eye=(0.2, 2.5, 0.01), target=(0.2, 0.0, 0.0), fov=40)
    return gs.Scene([left, right], gravity=(0, 0, 0), camera=camera, pairs={"left-right": contact})


true = collision(*TRUTH.values())
video = gs.render(true, gs.simulate(true, frames=14, **TIME), size=(64, 64))
mass, restitution = gs.unknown(0.5, low=0.05, high=3.0), gs.unknown(0.5, low=0.2, high=1.0)
fit = gs.estimate(collision(mass, restitution), video, **TIME)
print(fit)
for path, truth in TRUTH.items():
    error = abs(float(fit.values[path]) / truth - 1)
    print(f"{path}: {float(fit.values[path]):.8f}, truth {truth}, relative error {error:.1e}")
    assert error < 1e-6

scene = collision(mass, restitution, gs.unknown(0.5, low=0.05, high=3.0))
both = gs.identifiability(scene, frames=14, size=(64, 64), roughly=["contact"], samples=1, **TIME)
print(both)
assert any("only left.mass / right.mass is determined" in text for text in both.undetermined_directions)
