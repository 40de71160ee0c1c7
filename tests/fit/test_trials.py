"""Trials: shared and own unknowns, frame times, errors."""

import pytest
import torch
from tests.fit.observations.scenes import SIZE, motion, noise, pushed_cube

import gradsim as gs
from gradsim.fit.trials import make_trial_model

NOISE = 0.002  # of tracked positions [m]


def mass(**options) -> gs.unknown:
    return gs.unknown(5.0, low=1.0, high=20.0, **options)


def tracked(scene: gs.Scene, frames: int = 10, seed: int = 0, times=None, **options) -> gs.Tracks:
    """Tracks of a finer simulation by another integrator, with noise; at the frames of 10 Hz or at other times."""
    trajectory = motion(scene, frames) if times is None else motion(scene, 32, 25.0).sample(times)
    positions = trajectory["cube"].vertices
    noisy = positions + noise(positions.shape, NOISE, seed)
    return gs.Tracks({"cube": range(8)}, positions=noisy, **{"noise": NOISE, **options})


def inside(fit: gs.Fit, path: str, truth: float) -> bool:
    """Whether a value deviates from the truth by less than three standard deviations."""
    low, high = (float(end) for end in fit.intervals[path])
    return abs(float(fit.values[path]) - truth) < 0.75 * (high - low)


def tosses(count: int) -> list[gs.Trial]:
    """Trials with a common mass and starts of their own."""
    generator = torch.Generator().manual_seed(5)
    trials = []
    for k in range(count):
        velocity = (torch.tensor([1.0, 0.8, -0.3]) + torch.randn(3, generator=generator)).tolist()
        own = gs.unknown((1.0, 0.5, 0.0), per_trial=True)
        observed = tracked(pushed_cube(velocity=velocity), frames=8 + k % 3, seed=k)
        trials.append(gs.Trial(pushed_cube(mass=mass(), velocity=own), observed, fps=10.0, name=f"toss {k}"))
    return trials


@pytest.fixture(scope="module")
def fits() -> dict[int, tuple[gs.Fit, int]]:
    """Fits by number of trials, with the number of rollouts of each."""
    found = {}
    simulate = gs.fit.trial_groups.simulate_over
    for count in (2, 4, 8):
        rollouts: list[gs.Scene] = []
        with pytest.MonkeyPatch.context() as patch:
            for module in (gs.fit.trial_groups, gs.fit.trial_model):
                patch.setattr(module, "simulate_over", lambda s, time, r=rollouts: r.append(s) or simulate(s, time))
            found[count] = gs.estimate(tosses(count)), len(rollouts)
    return found


@pytest.mark.parametrize("count", [2, 4, 8])
def test_trials_of_a_right_model_converge(fits, count):
    fit, _ = fits[count]
    assert fit.status == "converged", fit.advice
    assert fit.certain
    assert inside(fit, "cube.mass", 3.7)
    assert set(fit.values) == {"cube.mass", *(f"cube.velocity@toss {k}" for k in range(count))}
    assert set(fit.misfit.trials) == {f"toss {k}" for k in range(count)}
    assert all(0.6 < chi2 < 1.5 for chi2 in fit.misfit.trials.values())


def test_more_trials_narrow_the_interval_of_what_they_share(fits):
    widths = []
    for count in (2, 8):
        low, high = fits[count][0].intervals["cube.mass"]
        widths.append(float(high - low))
    assert widths[1] < 0.75 * widths[0]


def test_trials_run_as_batches(fits):
    # Each rollout has a fixed cost, and the worlds of a batch share it: time grows less than linearly.
    rollouts = {count: number for count, (_, number) in fits.items()}
    assert rollouts[4] < 1.5 * rollouts[2]
    assert rollouts[8] < 2.0 * rollouts[2]


def test_unknowns_are_shared_by_path_or_separate():
    truths = [pushed_cube(mass=3.0), pushed_cube(mass=5.0)]
    own = [gs.Trial(pushed_cube(mass=mass(per_trial=True)), tracked(truth), fps=10.0) for truth in truths]
    fit = gs.estimate(own)
    assert inside(fit, "cube.mass@0", 3.0)
    assert inside(fit, "cube.mass@1", 5.0)
    shared = gs.estimate([gs.Trial(pushed_cube(mass=mass()), tracked(truth), fps=10.0) for truth in truths])
    assert shared.status == "does not explain the observations"
    assert list(shared.values) == ["cube.mass"]


def test_one_unknown_object_in_several_places_is_one_unknown():
    speed = gs.unknown(1.0, low=0.1, high=3.0)
    scene = pushed_cube(velocity=(speed, speed, -0.3))
    fit = gs.estimate(gs.Trial(scene, tracked(pushed_cube(velocity=(1.4, 1.4, -0.3))), fps=10.0))
    assert list(fit.values) == ["cube.velocity[0]"]
    assert inside(fit, "cube.velocity[0]", 1.4)
    assert fit.scene["cube"].velocity.tolist() == pytest.approx([1.4, 1.4, -0.3], abs=0.01)


def test_one_unknown_object_under_different_paths_of_two_trials():
    speed = gs.unknown(1.0, low=0.1, high=3.0)
    trials = [
        gs.Trial(pushed_cube(velocity=(speed, 0.8, 0.0)), tracked(pushed_cube(velocity=(1.4, 0.8, 0.0))), fps=10.0),
        gs.Trial(pushed_cube(velocity=(0.2, speed, 0.0)), tracked(pushed_cube(velocity=(0.2, 1.4, 0.0))), fps=10.0),
    ]
    fit = gs.estimate(trials)
    assert list(fit.values) == ["cube.velocity[0]"]
    assert inside(fit, "cube.velocity[0]", 1.4)


def test_irregular_times():
    times = torch.tensor([0.03, 0.1, 0.17, 0.31, 0.34, 0.5, 0.72, 0.8], dtype=torch.float64)
    trial = gs.Trial(pushed_cube(mass=mass()), tracked(pushed_cube(), times=times), times=times.tolist())
    fit = gs.estimate(trial)
    assert fit.status == "converged", fit.advice
    assert inside(fit, "cube.mass", 3.7)


@pytest.mark.parametrize("rate", [9.2, 10.6])
def test_an_unknown_frame_rate_is_estimated(rate):
    """The range is so wide that the slowest rate needs frames well beyond those at the guess."""
    times = torch.arange(10, dtype=torch.float64) / rate
    guess = gs.unknown(10.0, low=8.0, high=12.0)
    fit = gs.estimate(gs.Trial(pushed_cube(mass=mass()), tracked(pushed_cube(), times=times), fps=guess))
    assert fit.status == "converged", fit.advice
    assert inside(fit, "video.fps", rate)
    assert inside(fit, "cube.mass", 3.7)
    assert float(fit.values["video.fps"]) == pytest.approx(rate, rel=0.005)


def test_an_unknown_exposure_is_estimated():
    """The video is a mean over 16 images of the open shutter, not over those of the model."""
    scene, exposure = pushed_cube(), 0.06
    starts = torch.arange(8, dtype=torch.float64)[:, None] / 10
    times = (starts + exposure * (torch.arange(16) + 0.5) / 16).flatten()
    video = gs.render(scene, motion(scene, 100, 100.0).sample(times), SIZE).unflatten(0, (8, 16)).mean(1)
    shutter = gs.unknown(0.02, low=0.0, high=0.1)
    trial = gs.Trial(pushed_cube(mass=mass()), video + noise(video.shape, 0.01), fps=10.0, exposure=shutter)
    fit = gs.estimate(trial)
    assert float(fit.values["video.exposure"]) == pytest.approx(exposure, abs=0.002)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=0.01)


@pytest.mark.parametrize("offset", [-0.03, 0.07, 0.33])
def test_an_unknown_offset_is_estimated(offset):
    """More than one frame after the start, and up to one frame before it."""
    times = torch.arange(8, dtype=torch.float64) / 10 + offset
    guess = gs.unknown(0.0, low=-0.1, high=0.4)
    scene = pushed_cube(mass=mass())
    observed = tracked(pushed_cube(), times=times)
    fit = gs.estimate(gs.Trial(scene, observed, fps=10.0, offset=guess))
    assert inside(fit, "video.offset", offset)
    assert inside(fit, "cube.mass", 3.7)


def test_a_known_offset_of_several_frames():
    times = torch.arange(8, dtype=torch.float64) / 10 + 0.25
    fit = gs.estimate(gs.Trial(pushed_cube(mass=mass()), tracked(pushed_cube(), times=times), fps=10.0, offset=0.25))
    assert fit.status == "converged", fit.advice
    assert inside(fit, "cube.mass", 3.7)


def test_offsets_of_observations_are_added_to_that_of_the_trial():
    times = torch.arange(8, dtype=torch.float64) / 10
    late = gs.unknown(0.0, low=-0.05, high=0.3)
    observations = [
        tracked(pushed_cube(), times=times + 0.05),
        tracked(pushed_cube(), times=times + 0.05 + 0.21, seed=1, offset=late),
        tracked(pushed_cube(), times=times + 0.05 + 0.13, seed=2, offset=0.13),
    ]
    fit = gs.estimate(gs.Trial(pushed_cube(mass=mass()), observations, fps=10.0, offset=0.05))
    assert fit.status == "converged", fit.advice
    assert inside(fit, "observations[1].offset", 0.21)
    assert inside(fit, "cube.mass", 3.7)


def test_only_images_have_an_exposure():
    """Tracks are measured at the times of the frames, whatever the exposure."""
    observed = tracked(pushed_cube())
    for exposure in (0.0, 0.08):
        trial = gs.Trial(pushed_cube(mass=mass()), observed, fps=10.0, exposure=exposure)
        model = make_trial_model(trial, name="0", substeps=64, integrator=gs.Midpoint())
        values = {"cube.mass": torch.tensor([3.7], dtype=torch.float64)}
        scene = model.fill(values)
        residual = model.residual(scene, model.simulate_grid(scene), values, 0, 0, 10)
        assert float(residual.abs().max()) < 5 * NOISE


def test_videos_and_tracks_in_one_trial():
    scene = pushed_cube()
    video = gs.render(scene, motion(scene), SIZE)
    observations = [video + noise(video.shape, 0.01), tracked(scene, noise=None)]
    fit = gs.estimate(gs.Trial(pushed_cube(mass=mass()), observations, fps=10.0))
    assert fit.status == "converged", fit.advice
    assert inside(fit, "cube.mass", 3.7)


VIDEO = torch.rand(4, 16, 16, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
STATES = gs.States({"cube.position": torch.zeros(4, 3)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scene": "cube"}, "Trial.scene"),
        ({"fps": None}, "fps"),
        ({"fps": 0.0}, "fps"),
        ({"fps": True}, "fps"),
        ({"fps": gs.unknown(30.0)}, "video.fps.*bounds"),
        ({"fps": gs.unknown((30.0, 30.0), low=1.0)}, "video.fps.*single"),
        ({"times": [0.0, 0.1, 0.2, 0.3]}, "Trial.times.*fps"),
        ({"fps": None, "times": [0.0, 0.1]}, r"Trial.times.*\[4\]"),
        ({"fps": None, "times": [0.0, 0.2, 0.1, 0.3]}, "Trial.times.*increasing"),
        ({"fps": None, "times": [0.0, 0.2, torch.nan, 0.3]}, "Trial.times.*increasing"),
        ({"fps": None, "times": [-0.1, 0.0, 0.1, 0.2]}, "Trial.times.*>= 0"),
        ({"fps": None, "times": "now"}, "Trial.times"),
        ({"offset": None}, "Trial.offset"),
        ({"offset": -0.2}, "offset.*one frame before"),
        ({"offset": gs.unknown(0.0)}, "video.offset.*bounds"),
        ({"offset": gs.unknown(0.0, low=-0.3, high=0.3)}, "offset.*one frame before"),
        ({"exposure": -0.1}, "Trial.exposure"),
        ({"exposure": gs.unknown(0.01, low=0.0)}, "video.exposure.*bounds"),
        ({"observations": []}, "Trial.observations"),
        ({"observations": [VIDEO, STATES.replaced(values={"cube.position": torch.zeros(3, 3)})]}, "number of frames"),
        ({"observations": "video.mp4"}, "gs.Depth"),
        ({"observations": STATES.replaced(offset=gs.unknown(0.0))}, r"observations\[0\].offset.*bounds"),
        ({"observations": STATES.replaced(offset=-0.2)}, "offset.*one frame before"),
    ],
)
def test_invalid_trials_are_named(arguments, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.estimate(gs.Trial(**{"scene": pushed_cube(mass=mass()), "observations": VIDEO, "fps": 10.0, **arguments}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": torch.ones(16, 16)}, "mask.*gs.States"),
        ({"noise": 0.1}, "noise.*gs.States"),
        ({"robust": 0.1}, "robust.*gs.States"),
        ({"frames": [1, 2]}, "frames.*gs.States"),
        ({"brightness": True}, "brightness.*gs.States"),
        ({"renderer": gs.SoftRas()}, "renderer.*gs.States"),
        ({"fps": 10.0}, "fps.*gs.Trial"),
        ({"video": VIDEO}, "video"),
    ],
)
def test_options_that_do_not_apply_to_a_trial_are_errors(options, message):
    trial = gs.Trial(pushed_cube(mass=mass()), STATES, fps=10.0)
    with pytest.raises(gs.InvalidInput, match=message):
        gs.estimate(trial, **options)


def test_names_of_trials_are_unique():
    trials = [gs.Trial(pushed_cube(mass=mass()), STATES, fps=10.0, name="toss") for _ in range(2)]
    with pytest.raises(gs.InvalidInput, match="Trial.name"):
        gs.estimate(trials)


def test_shared_unknowns_are_declared_equally():
    other = gs.unknown(4.0, low=1.0, high=20.0)
    trials = [gs.Trial(pushed_cube(mass=own), STATES, fps=10.0) for own in (mass(), other)]
    with pytest.raises(gs.InvalidInput, match="cube.mass.*declared equally"):
        gs.estimate(trials)
