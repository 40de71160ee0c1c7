"""Estimates of articulated bodies: a compound double pendulum from tracks of segments, an arm from pixels and masks."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import gradsim as gs

TRUE_FPS, STATED_FPS, FRAMES = 60.0, 48.0, 40
L1, L2, C1, C2, M1, M2, I1, I2, D1, D2 = 0.30, 0.25, 0.14, 0.11, 1.0, 0.8, 0.009, 0.005, 2e-3, 1e-3


def rates(_, y):
    """Lagrange's equations of two heavy bars in absolute angles, independent of the simulator."""
    a, b, wa, wb = y
    c, s, g = np.cos(a - b), np.sin(a - b), 9.81
    mass = [[I1 + M1 * C1**2 + M2 * L1**2, M2 * L1 * C2 * c], [M2 * L1 * C2 * c, I2 + M2 * C2**2]]
    joint = D2 * (wb - wa)
    force = [
        -M2 * L1 * C2 * s * wb**2 - (M1 * C1 + M2 * L1) * g * np.sin(a) - D1 * wa + joint,
        M2 * L1 * C2 * s * wa**2 - M2 * C2 * g * np.sin(b) - joint,
    ]
    return [wa, wb, *np.linalg.solve(mass, force)]


def segment(start, noise, seed):
    """Returns positions of the ends of both bars [m], [T, 2, 3]; `start` has relative angles and rates."""
    first = [start[0], start[0] + start[1], start[2], start[2] + start[3]]
    times = np.arange(FRAMES) / TRUE_FPS
    a, b, _, _ = solve_ivp(rates, (0, times[-1]), first, "DOP853", times, rtol=1e-10, atol=1e-12).y
    joint = np.stack([L1 * np.sin(a), -L1 * np.cos(a), 0 * a], -1)
    tip = joint + np.stack([L2 * np.sin(b), -L2 * np.cos(b), 0 * b], -1)
    places = np.stack([joint, tip], 1)
    return places + noise * np.random.default_rng(seed).normal(size=places.shape)


def bars(values, start):
    def inertia(value):
        return [[1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0], [0.0, 0.0, value]]

    hinges = [gs.Revolute(angle=start[k], rate=start[2 + k], damping=values[f"d{k + 1}"]) for k in range(2)]
    links = {
        "upper": gs.Link(hinges[0], mass=M1, center=(0.0, values["c1"], 0.0), inertia=inertia(values["i1"])),
        "lower": gs.Link(
            hinges[1], "upper", (0.0, values["l1"], 0.0), mass=values["m2"], center=(0.0, values["c2"], 0.0),
            inertia=inertia(values["i2"]),
        ),
        "tip": gs.Link(parent="lower", position=(0.0, values["l2"], 0.0)),
    }  # fmt: skip
    return gs.Scene([gs.Articulated("bars", links)])


POINTS = [gs.Marker("bars", link="lower"), gs.Marker("bars", link="tip")]
STARTS = [(1.4, 0.6, 0.0, 1.0), (-0.9, -1.1, 2.0, 0.0), (0.5, 1.6, -1.0, 3.0), (1.0, -0.8, 1.0, -1.0)]


def start_of(track, fps):
    """Returns relative angles and rates at the start, from the first frames of a track."""
    bars_along = (track[:, 0], track[:, 1] - track[:, 0])
    absolute = [np.unwrap(np.arctan2(along[:, 0], -along[:, 1])) for along in bars_along]
    fits = [np.polyfit(np.arange(6) / fps, angle[:6], 2) for angle in (absolute[0], absolute[1] - absolute[0])]
    return [fits[0][2], fits[1][2], fits[0][1], fits[1][1]]


def test_a_compound_double_pendulum_from_segments_at_a_wrong_frame_rate():
    guesses = {"l1": -0.34, "l2": -0.20, "c1": -0.18, "c2": -0.08, "i1": 0.006, "i2": 0.008, "d1": 1e-3, "d2": 2e-3}
    guesses["m2"] = 1.2
    unknowns = {name: gs.unknown(g, *sorted((0.2 * g, 5.0 * g))) for name, g in guesses.items()}
    fps = gs.unknown(STATED_FPS, low=0.6 * STATED_FPS, high=1.6 * STATED_FPS)
    trials = []
    for number, start in enumerate(STARTS[:3]):
        track = segment(start, 5e-4, number)
        first = [gs.unknown(float(x), low=x - 6.0, high=x + 6.0, per_trial=True) for x in start_of(track, STATED_FPS)]
        observed = gs.Tracks(POINTS, positions=track, noise=5e-4)
        trials.append(gs.Trial(bars(unknowns, first), observed, fps=fps, name=f"segment {number}"))
    fit = gs.estimate(trials, substeps=8)
    assert float(fit.values["video.fps"]) == pytest.approx(TRUE_FPS, rel=0.01)
    found = fit.scene["bars"].links
    assert float(found["lower"].position[1]) == pytest.approx(-L1, rel=0.005)
    assert float(found["tip"].position[1]) == pytest.approx(-L2, rel=0.005)
    # Only combinations of masses, centres and inertias matter, and the fit says so; together they predict.
    assert fit.undetermined_directions
    values = {name: float(fit.values[path]) for name, path in PATHS.items()}
    scene = bars(values, STARTS[3])
    motion = gs.simulate(scene, frames=FRAMES, fps=TRUE_FPS, substeps=8)
    predicted = torch.stack([point.positions(scene, motion) for point in POINTS], -2).numpy()
    error = np.sqrt(((predicted - segment(STARTS[3], 0.0, 0)) ** 2).sum(-1).mean())
    assert error < 0.003 * (L1 + L2)


PATHS = {
    "l1": "bars.links.lower.position[1]", "l2": "bars.links.tip.position[1]", "c1": "bars.links.upper.center[1]",
    "c2": "bars.links.lower.center[1]", "i1": "bars.links.upper.inertia[2][2]", "i2": "bars.links.lower.inertia[2][2]",
    "d1": "bars.links.upper.joint.damping", "d2": "bars.links.lower.joint.damping", "m2": "bars.links.lower.mass",
}  # fmt: skip


def door(damping, stiffness):
    leaf = gs.meshes.box((0.8, 1.0, 0.05))
    hinge = gs.Revolute(axis=(0.0, 1.0, 0.0), angle=1.2, damping=damping, stiffness=stiffness)
    link = gs.Link(hinge, position=(-0.5, 0.0, 0.0), mass=2.0, center=(0.4, 0.0, 0.0), mesh=leaf)
    camera = gs.Camera(eye=(0.5, 1.0, 3.0), target=(0.0, 0.0, 0.0), fov=45)
    return gs.Scene([gs.Articulated("door", {"leaf": link})], camera=camera)


@pytest.mark.parametrize("kind", ["pixels", "masks", "angles"])
def test_a_door_closes_in_a_video(kind):
    truth = door(0.4, 1.5)
    motion = gs.simulate(truth, frames=9, fps=8.0, substeps=40, integrator=gs.SymplecticEuler())
    if kind == "angles":
        angles = motion["door"].angles.clone()
        angles[3] = torch.nan
        observed = gs.States({"door.angles": angles}, noise=1e-3)
    else:
        images = gs.render(truth, motion, size=(32, 32), alpha=True)
        observed = gs.Masks(images[..., 3], noise=0.01) if kind == "masks" else gs.Pixels(images[..., :3], noise=0.01)
    scene = door(gs.unknown(0.2, low=0.01, high=2.0), gs.unknown(2.5, low=0.1, high=10.0))
    fit = gs.estimate(scene, observed, fps=8.0, substeps=10)
    assert float(fit.values["door.links.leaf.joint.damping"]) == pytest.approx(0.4, rel=0.05)
    assert float(fit.values["door.links.leaf.joint.stiffness"]) == pytest.approx(1.5, rel=0.05)
