"""Compound double pendula from tracks that SciPy computes, with a friction and a drag that the scene does not have."""

import itertools

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import gradsim as gs
from gradsim.fit.rod_guess import Paths, guess_rods, guess_start

L1, L2, C1, C2, M1, M2, I1, I2 = 0.30, 0.25, 0.14, 0.11, 1.0, 0.8, 0.009, 0.005  # [m], [kg], [kg m^2]
DAMPING, FRICTION, DRAG, TILT = (2e-3, 1e-3), (1e-3, 5e-4), 1e-4, 0.01  # [N m s], [N m], [N m s^2], [rad]
FPS, NOISE = 60.0, 5e-4  # [1/s], [m]
SIZE, SCALE, CENTER = (480, 640), 1 / 380.0, (300.0, 230.0)  # [px], [m/px], [px]
STARTS = [(1.4, 2.0, 0.0, 1.0), (-0.9, -2.0, 2.0, 0.0), (2.5, 1.6, -1.0, 3.0), (1.9, 0.4, -2.0, 3.0)]


def rates(_, y):
    """Lagrange's equations of two heavy bars in absolute angles, with viscous and dry friction, drag and a tilt."""
    a, b, wa, wb = y
    c, s, g = np.cos(a - b), np.sin(a - b), 9.81
    mass = [[I1 + M1 * C1**2 + M2 * L1**2, M2 * L1 * C2 * c], [M2 * L1 * C2 * c, I2 + M2 * C2**2]]
    base = DAMPING[0] * wa + FRICTION[0] * np.tanh(wa / 0.05)
    joint = DAMPING[1] * (wb - wa) + FRICTION[1] * np.tanh((wb - wa) / 0.05)
    force = [
        -M2 * L1 * C2 * s * wb**2 - (M1 * C1 + M2 * L1) * g * np.sin(a - TILT) - base + joint - DRAG * wa * abs(wa),
        M2 * L1 * C2 * s * wa**2 - M2 * C2 * g * np.sin(b - TILT) - joint - DRAG * wb * abs(wb),
    ]
    return [wa, wb, *np.linalg.solve(mass, force)]


def record(start, frames, seed):
    """Returns positions of joint and end [m], [T, 2, 2], y up."""
    times = np.arange(frames) / FPS
    a, b, _, _ = solve_ivp(rates, (0, times[-1]), start, "DOP853", times, rtol=1e-9, atol=1e-11).y
    joint = np.stack([L1 * np.sin(a), -L1 * np.cos(a)], -1)
    tracks = np.stack([joint, joint + np.stack([L2 * np.sin(b), -L2 * np.cos(b)], -1)], 1)
    return tracks + NOISE * np.random.default_rng(seed).normal(size=tracks.shape)


def in_pixels(tracks):
    return np.array(CENTER) + tracks * np.array([1.0, -1.0]) / SCALE


def effective():
    """Effective lengths of both bars [m], and the ratio of the masses there: Huygens' reduction."""
    second = (I2 + M2 * C2**2) / (M2 * C2)
    end = M2 * C2 / second
    inertia = I1 + M1 * C1**2 + (M2 - end) * L1**2
    moment = M1 * C1 + (M2 - end) * L1
    return inertia / moment, second, end * inertia / moment**2


def test_guesses_are_near_the_truth():
    recordings = [record(start, 120, k) for k, start in enumerate(STARTS[:3])]
    paths = [Paths(own[:, 0], own[:, 1], None) for own in recordings]
    guess = guess_rods(paths)
    assert guess.lengths == pytest.approx((L1, L2), rel=2e-3)
    assert (*guess.effective, guess.ratio) == pytest.approx(effective(), rel=0.05)
    assert guess.gravity * FPS**2 == pytest.approx([9.81 * np.sin(TILT), -9.81], abs=0.15)
    assert guess.pivot == pytest.approx([0.0, 0.0], abs=1e-3)
    start = guess_start(paths[1], guess.pivot) * [1.0, 1.0, FPS, FPS]
    assert start == pytest.approx(STARTS[1], abs=0.4)  # the noise alone makes 0.3 rad/s


def test_tracks_in_pixels_at_a_wrong_frame_rate_predict_an_unseen_recording():
    recordings = [in_pixels(record(start, 70, k)) for k, start in enumerate(STARTS[:2])]
    recordings[0][12] = np.nan  # not seen
    rate = gs.unknown(0.8 * FPS, low=0.5 * FPS, high=1.5 * FPS)
    options = {"size": SIZE, "scale": SCALE}
    fit = gs.estimate(gs.pendulum_trials(recordings, fps=rate, **options), corrections=0)
    fps = float(fit.values["video.fps"])
    bars = fit.scene["bars"].links
    assert fps == pytest.approx(FPS, rel=0.01)
    assert float(bars["lower"].position[1]) == pytest.approx(L1, rel=0.01)
    assert float(bars["end"].position[1]) == pytest.approx(L2, rel=0.01)
    found = (float(bars["upper"].center[1]), float(bars["lower"].center[1]), float(bars["lower"].mass))
    assert found == pytest.approx(effective(), rel=0.02)

    unseen = in_pixels(record(STARTS[3], 80, 3))
    (trial,) = gs.pendulum_trials(unseen[:30], fps=fps, known=fit, **options)
    assert all("joint" in path for path in trial.scene.unknowns)
    start = gs.estimate(trial, corrections=0)
    motion = gs.simulate(start.scene, frames=80, fps=fps, substeps=8)
    end = motion["bars"].link("end").position[:, :2].numpy()
    expected = (unseen[:, 1] - np.array([SIZE[1] / 2, SIZE[0] / 2])) * np.array([SCALE, -SCALE])
    error = np.hypot(*(end - expected)[30:].T)
    assert np.sqrt((error**2).mean()) < 0.02 * (L1 + L2)


def test_long_recordings_are_cut_and_the_pivot_may_be_tracked():
    tracks = record(STARTS[0], 200, 0)
    three = np.concatenate([np.zeros_like(tracks[:, :1]), tracks], 1)
    trials = gs.pendulum_trials(three, fps=FPS)
    assert 2 <= len(trials) <= 4
    assert sum(trial.observations.frames for trial in trials) == 200
    assert len(trials[0].observations.points) == 3
    assert len({path for trial in trials for path in trial.scene.unknowns}) == 14
    assert len(gs.pendulum_trials(three, fps=FPS, friction=True)[0].scene.unknowns) == 16
    assert len(gs.pendulum_trials(three, fps=FPS, friction=True, drag=True)[0].scene.unknowns) == 18
    fine = np.repeat(three, 3, 0)  # as if recorded at three times the frame rate
    assert len(gs.pendulum_trials(fine, fps=3 * FPS)) == 4
    assert len(gs.pendulum_trials(fine, fps=3 * FPS)[0].scene.unknowns) == 20
    assert len(gs.pendulum_trials([three] * 3, fps=FPS, segments=4)) == 4


@pytest.mark.parametrize("kind", ["columns", "any order", ".npz", ".npy", "names.csv", "plain.csv", "blanks.txt"])
def test_tables_of_many_layouts_are_read(kind, tmp_path):
    tracks = record(STARTS[0], 60, 0)
    three = np.concatenate([np.full((60, 1, 2), 0.1), tracks + 0.1], 1)
    flat, path = three.reshape(60, 6), tmp_path / f"swing{kind[kind.find('.') :]}"
    given = {"columns": flat, "any order": three[:, [2, 0, 1]]}.get(kind, path)
    if kind == ".npz":
        names = ("red", "green", "blue")
        np.savez(path, rate=FPS, **dict(zip(names, three.transpose(1, 0, 2), strict=True)))
    elif kind == ".npy":
        np.save(path, three)
    elif kind == "names.csv":  # blue before red, with the time, and without the points of one frame
        rows = [f"{k / FPS}," + ",".join(map(str, row)) for k, row in enumerate(three[:, [2, 0, 1]].reshape(60, 6))]
        rows[3] = f"{3 / FPS},,,,,,"
        path.write_text("t,x_blue,y_blue,x_red,y_red,x_green,y_green\n" + "\n".join(rows) + "\n")
    elif kind in ("plain.csv", "blanks.txt"):
        np.savetxt(path, flat, delimiter="," if kind == "plain.csv" else " ")
    trials = gs.pendulum_trials(given, fps=FPS, frames=60)
    observed = trials[0].observations.positions[..., :2].numpy()
    kept = np.arange(60) != (3 if kind == "names.csv" else 60)
    np.testing.assert_allclose(observed[kept], three[kept], atol=1e-12)


def test_lost_markers_are_left_out():
    tracks = record(STARTS[0], 60, 0)
    lost = tracks.copy()
    lost[7, 0] += 0.2
    lost[20:24, 1] = lost[20:24, 0]
    (trial,) = gs.pendulum_trials(lost, fps=FPS, frames=60)
    missing = np.isnan(trial.observations.positions[..., 0].numpy())
    expected = np.zeros((60, 2), bool)
    expected[7, 0] = expected[20:24, 1] = True
    np.testing.assert_array_equal(missing, expected)
    clean = gs.pendulum_trials(tracks, fps=FPS, frames=60)[0].scene.unknowns
    for path, own in trial.scene.unknowns.items():
        if "length" in path or "position" in path:
            assert float(own.guess) == pytest.approx(float(clean[path].guess), abs=2e-3)


def test_known_lengths_or_a_known_scale_give_the_unit_of_the_tracks():
    tracks = in_pixels(record(STARTS[0], 60, 0))
    rate = gs.unknown(0.8 * FPS, low=0.5 * FPS, high=1.5 * FPS)
    (trial,) = gs.pendulum_trials(tracks, fps=rate, size=SIZE, lengths=(L1, L2), frames=60)
    assert float(trial.scene.unknowns["camera.view_height"].guess) == pytest.approx(SIZE[0] * SCALE, rel=0.01)
    assert float(trial.fps.guess) == pytest.approx(FPS, rel=0.05)
    (trial,) = gs.pendulum_trials(tracks, fps=rate, scale=SCALE, frames=60, noise=0.2, robust=gs.Huber(1.0))
    assert trial.scene.camera is None
    assert trial.observations.noise == pytest.approx(0.2 * SCALE)
    assert trial.observations.robust.threshold == pytest.approx(SCALE)
    assert float(trial.scene.unknowns["bars.links.lower.position[1]"].guess) == pytest.approx(L1, rel=0.01)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda tracks: tracks * [1.0, -1.0], {}, "points up"),
        (lambda tracks: 500 * tracks, {}, "check the units"),
        (lambda tracks: tracks[:10], {}, "needs 20"),
        (lambda tracks: tracks[:, 0], {}, r"\[T, 2, 2\]"),
        (in_pixels, {"size": SIZE, "fps": gs.unknown(60.0, low=30.0, high=90.0)}, "not both"),
        (lambda tracks: tracks, {"scale": gs.unknown(0.1, low=0.01, high=1.0)}, "size="),
        (lambda tracks: tracks, {"scale": 0.0}, "> 0"),
        (lambda tracks: tracks, {"lengths": (0.3, -0.2)}, "> 0"),
        (lambda tracks: tracks, {"segments": 0}, ">= 1"),
        (lambda tracks: "swing.csv", {}, "existing file"),
        (lambda tracks: tracks, {"fps": -1.0}, "> 0"),
        (lambda tracks: tracks, {"frames": 3}, ">= 20"),
    ],
)
def test_tracks_that_do_not_fit_are_refused(change, options, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.pendulum_trials(change(record(STARTS[0], 60, 0)), **{"fps": FPS, **options})


def test_values_of_a_fit_stay_as_they_are():
    trial = gs.pendulum_trials(record(STARTS[0], 60, 0), fps=FPS)[0]
    motion = gs.simulate(trial.scene.with_values({k: v.guess for k, v in trial.scene.unknowns.items()}), frames=2)
    ends = [motion["bars"].link(name).position[0] for name in ("upper", "lower", "end")]
    lengths = [float(torch.linalg.norm(b - a)) for a, b in itertools.pairwise(ends)]
    assert lengths == pytest.approx([L1, L2], rel=0.01)
    assert ends[2][:2].numpy() == pytest.approx(record(STARTS[0], 60, 0)[0, 1], abs=0.01)
