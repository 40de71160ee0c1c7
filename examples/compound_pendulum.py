"""A double pendulum of heavy bars from tracks of three segments, with a frame rate that is stated 20 % too low."""

import numpy as np
import torch

import gradsim as gs

TRUE_FPS, STATED_FPS, FRAMES = 60.0, 48.0, 40
NAMES = ("l1", "l2", "c1", "c2", "i1", "i2", "d1", "d2")  # ends, centres, inertias and damping of the bars
TRUTH = dict(zip(NAMES, (-0.30, -0.25, -0.14, -0.11, 0.009, 0.005, 2e-3, 1e-3), strict=True))
GUESS = dict(zip(NAMES, (-0.32, -0.22, -0.16, -0.12, 0.007, 0.006, 1e-3, 2e-3), strict=True))
STARTS = [(1.4, 0.6, 0.0, 1.0), (-0.9, -1.1, 2.0, 0.0), (0.5, 1.6, -1.0, 3.0)]  # angles and rates
POINTS = [gs.Marker("bars", link="lower"), gs.Marker("bars", link="tip")]
random = torch.Generator().manual_seed(0)


def pendulum(values, start):
    """Known masses set the unit of all inertias; without a known force only ratios matter."""

    def bar(k, **place):
        hinge = gs.Revolute(angle=start[k], rate=start[2 + k], damping=values[f"d{k + 1}"])
        inertia = [[1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, values[f"i{k + 1}"]]]
        return gs.Link(hinge, mass=(1.0, 0.8)[k], center=(0.0, values[f"c{k + 1}"], 0.0), inertia=inertia, **place)

    lower = bar(1, parent="upper", position=(0.0, values["l1"], 0.0))
    tip = gs.Link(parent="lower", position=(0.0, values["l2"], 0.0))
    return gs.Scene([gs.Articulated("bars", {"upper": bar(0), "lower": lower, "tip": tip})])


def track(start):
    """Measured positions of both ends [m], [T, 2, 3], from another integrator with a finer step."""
    scene = pendulum(TRUTH, start)
    motion = gs.simulate(scene, frames=FRAMES, fps=TRUE_FPS, substeps=16, integrator=gs.RungeKutta4())
    places = torch.stack([point.positions(scene, motion) for point in POINTS], -2)
    return places + 5e-4 * torch.randn(places.shape, generator=random, dtype=places.dtype)


def start_of(track):
    """Returns guesses of angles and rates at the start, from parabolas through the first frames at the stated rate."""
    along = track[:, 0].numpy(), (track[:, 1] - track[:, 0]).numpy()  # both bars
    absolute = [np.unwrap(np.arctan2(bar[:6, 0], -bar[:6, 1])) for bar in along]
    fits = [np.polyfit(np.arange(6) / STATED_FPS, angle, 2) for angle in (absolute[0], absolute[1] - absolute[0])]
    return [fits[0][2], fits[1][2], fits[0][1], fits[1][1]]


unknowns = {name: gs.unknown(guess, *sorted((0.3 * guess, 3.0 * guess))) for name, guess in GUESS.items()}
frame_rate = gs.unknown(STATED_FPS, low=0.7 * STATED_FPS, high=1.4 * STATED_FPS)
trials = []
for number, start in enumerate(STARTS):
    places = track(start)
    first = [gs.unknown(float(x), low=x - 6.0, high=x + 6.0, per_trial=True) for x in start_of(places)]
    measured = gs.Tracks(POINTS, positions=places, noise=5e-4)
    trials.append(gs.Trial(pendulum(unknowns, first), measured, fps=frame_rate, name=f"segment {number}"))
fit = gs.estimate(trials, substeps=8)
print(fit)
fps = float(fit.values["video.fps"])
print(f"frame rate {fps:.2f}, stated {STATED_FPS}, true {TRUE_FPS}")
assert abs(fps / TRUE_FPS - 1) < 0.01
