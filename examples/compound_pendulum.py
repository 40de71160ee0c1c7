"""A double pendulum of heavy bars from tracks of its joint and end, with a frame rate that is stated 20 % too low.

Three recordings are fitted together; then the start of a fourth one, and its motion is predicted.
"""

import torch

import gradsim as gs

TRUE_FPS, STATED_FPS, FRAMES, NOISE = 60.0, 48.0, 60, 5e-4  # [1/s], [1/s], of a recording, [m]
STARTS = [(1.4, 0.6, 0.0, 1.0), (-0.9, -1.1, 2.0, 0.0), (0.5, 1.6, -1.0, 3.0), (2.0, -0.8, 1.0, -1.0)]
POINTS = [gs.Marker("bars", link="lower"), gs.Marker("bars", link="tip")]
random = torch.Generator().manual_seed(0)


def true_pendulum(angle, elbow, rate, elbow_rate):
    """Bars with masses, centres and inertias of their own."""

    def bar(joint, mass, center, inertia, **place):
        inertia = [[1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, inertia]]
        return gs.Link(joint, mass=mass, center=(0.0, -center, 0.0), inertia=inertia, **place)

    hinges = gs.Revolute(angle=angle, rate=rate, damping=2e-3), gs.Revolute(angle=elbow, rate=elbow_rate, damping=1e-3)
    upper = bar(hinges[0], 1.0, 0.14, 0.009)
    lower = bar(hinges[1], 0.8, 0.11, 0.005, parent="upper", position=(0.0, -0.30, 0.0))
    tip = gs.Link(parent="lower", position=(0.0, -0.25, 0.0))
    return gs.Scene([gs.Articulated("bars", {"upper": upper, "lower": lower, "tip": tip})])


def record(start):
    """Measured positions of joint and end [m], [T, 2, 2], from another integrator with a finer step."""
    scene = true_pendulum(*start)
    motion = gs.simulate(scene, frames=FRAMES, fps=TRUE_FPS, substeps=16, integrator=gs.RungeKutta4())
    places = torch.stack([point.positions(scene, motion)[:, :2] for point in POINTS], -2)
    return places + NOISE * torch.randn(places.shape, generator=random, dtype=places.dtype)


frame_rate = gs.unknown(STATED_FPS, low=0.7 * STATED_FPS, high=1.4 * STATED_FPS)
fit = gs.estimate(gs.pendulum_trials([record(start) for start in STARTS[:3]], fps=frame_rate))
print(fit)
fps = float(fit.values["video.fps"])
print(f"frame rate {fps:.2f}, stated {STATED_FPS}, true {TRUE_FPS}")
assert abs(fps / TRUE_FPS - 1) < 0.01

unseen = record(STARTS[3])  # its first frames give the start, the others are predicted
start = gs.estimate(gs.pendulum_trials(unseen[:20], fps=fps, known=fit))
motion = gs.simulate(start.scene, frames=FRAMES, fps=fps, substeps=8)
predicted = motion["bars"].link("end").position[:, :2]
error = (predicted - unseen[:, 1]).norm(dim=-1)
print(f"error of the predicted end: {float(error[20:].square().mean().sqrt()):.4f} m, length of the bars 0.55 m")
assert float(error.max()) < 0.02
