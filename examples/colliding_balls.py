"""Masses and restitution from a video of two balls that collide.

A collision determines the ratio of the masses and the restitution, not the masses: without another force, masses times
any factor move equally. With both masses unknown the estimate says so; with one of them known it finds the other.
"""

import gradsim as gs

TRUTH = {"right.mass": 0.3, "pairs.left-right.restitution": 0.7}


def collision(mass: gs.Quantity, restitution: gs.Quantity, left_mass: gs.Quantity = 0.5) -> gs.Scene:
    """A ball that rolls into another one, off centre, seen from above."""
    looks = [gs.Look(color=color) for color in ((0.8, 0.3, 0.2), (0.2, 0.4, 0.8))]
    left = gs.Ball(
        "left", radius=0.1, mass=left_mass, position=(-0.4, 0.0, 0.06), velocity=(1.5, 0.0, 0.0), look=looks[0]
    )
    right = gs.Ball("right", radius=0.12, mass=mass, look=looks[1])
    contact = gs.Contact(ke=2e4, mu=0.0, restitution=restitution)
    camera = gs.Camera(eye=(0.2, 2.5, 0.01), target=(0.2, 0.0, 0.0), fov=40)
    return gs.Scene(
        [left, right], gravity=(0.0, 0.0, 0.0), camera=camera, pairs={"left-right": contact}, background=(0.9, 0.9, 0.9)
    )


video = gs.render(
    collision(*TRUTH.values()),
    gs.simulate(collision(*TRUTH.values()), frames=16, fps=20, substeps=200),
    size=(64, 64),
)
restitution = gs.unknown(0.5, low=0.2, high=1.0)
unknown = collision(gs.unknown(0.5, low=0.05, high=5.0), restitution)
fit = gs.estimate(unknown, gs.Video(video, fps=20), substeps=200)
print(fit)
for path, truth in TRUTH.items():
    error = abs(float(fit.values[path]) / truth - 1)
    print(f"{path}: {float(fit.values[path]):.8f}, truth {truth}, relative error {error:.1e}")
    assert error < 1e-6
