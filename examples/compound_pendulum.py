"""A double pendulum of heavy bars from tracks of several segments, with a frame rate that is stated 20 % too low."""

import torch

import gradsim as gs

TRUE_FPS, STATED_FPS, FRAMES = 60.0, 48.0, 40


def pendulum(values, angles, rates):
    """The second bar hangs from the first; the mass of the first sets the unit in which all others are measured."""
    zz = [[1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, 0.0]]

    def inertia(name):
        return [*zz[:2], [0.0, 0.0, values[name]]]

    upper = gs.Revolute(angle=angles[0], rate=rates[0], damping=values["d1"])
    lower = gs.Revolute(angle=angles[1], rate=rates[1], damping=values["d2"])
    tips = {"end": gs.Link(parent="upper", position=(0.0, values["l1"], 0.0))}
    tips["tip"] = gs.Link(parent="lower", position=(0.0, values["l2"], 0.0))
    links = {
        "upper": gs.Link(upper, mass=1.0, center=(0.0, values["c1"], 0.0), inertia=inertia("i1")),
        "lower": gs.Link(lower, "upper", (0.0, values["l1"], 0.0), mass=values["m2"], center=(0.0, values["c2"], 0.0), inertia=inertia("i2")),
    }  # fmt: skip
    return gs.Scene([gs.Articulated("bars", {**links, **tips})])


TRUTH = {"l1": -0.30, "l2": -0.25, "c1": -0.14, "c2": -0.11, "m2": 0.8, "i1": 0.009, "i2": 0.005, "d1": 2e-3, "d2": 1e-3}
POINTS = [gs.Marker("bars", link="end"), gs.Marker("bars", link="tip")]
STARTS = [((1.4, 0.6), (0.0, 1.0)), ((-0.9, -1.1), (2.0, 0.0)), ((0.5, 1.6), (-1.0, 3.0)), ((1.0, -0.8), (1.0, -1.0))]
random = torch.Generator().manual_seed(0)


def track(scene, noise):
    """Positions of both ends [m], [T, 2, 3], from another integrator with a finer step."""
    motion = gs.simulate(scene, frames=FRAMES, fps=TRUE_FPS, substeps=16, integrator=gs.RungeKutta4())
    places = torch.stack([point.positions(scene, motion) for point in POINTS], -2)
    return places + noise * torch.randn(places.shape, generator=random, dtype=places.dtype)


guesses = {"l1": -0.32, "l2": -0.22, "c1": -0.16, "c2": -0.12, "i1": 0.007, "i2": 0.006, "d1": 1e-3, "d2": 2e-3}
bounds = {name: sorted((0.3 * value, 3.0 * value)) for name, value in guesses.items()}
unknowns = {name: gs.unknown(value, *bounds[name]) for name, value in guesses.items()} | {"m2": 0.8}
frame_rate = gs.unknown(STATED_FPS, low=0.7 * STATED_FPS, high=1.4 * STATED_FPS)
trials = []
for number, (angles, rates) in enumerate(STARTS[:3]):
    first = [gs.unknown(a + 0.1, low=a - 0.6, high=a + 0.6, per_trial=True) for a in angles]
    speed = [gs.unknown(w - 0.3, low=w - 4.0, high=w + 4.0, per_trial=True) for w in rates]
    measured = gs.Tracks(POINTS, positions=track(pendulum(TRUTH, angles, rates), 5e-4), noise=5e-4)
    trials.append(gs.Trial(pendulum(unknowns, first, speed), measured, fps=frame_rate, name=f"segment {number}"))
fit = gs.estimate(trials, integrator=gs.RungeKutta4(), substeps=6)
print(fit)
fps = float(fit.values["video.fps"])
print(f"frame rate {fps:.2f}, stated {STATED_FPS}, true {TRUE_FPS}")
assert abs(fps / TRUE_FPS - 1) < 0.01
