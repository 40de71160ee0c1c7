"""Odd arguments of searches, controls and policies are refused by name before anything is computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import GradsimError

BALL = gs.Ball("ball", radius=0.1, mass=1.0, velocity=(gs.unknown(0.5, low=-2.0, high=2.0), 0.0, 0.0))
SCENE = gs.Scene([BALL])
TRACKS = gs.Tracks([gs.Center("ball")], positions=torch.zeros(3, 1, 3), noise=0.1)
GOAL = gs.GoalState({"ball.position": (0.2, 0.0, 0.0)})
BLOCK = gs.Scene([gs.Soft("block", gs.meshes.tet_box(0.3, 1), density=200.0)])


def loss(scene):
    return torch.zeros(1, dtype=torch.float64)


def control(goal=GOAL, controls=None, **options):
    return gs.control(SCENE, goal, controls, **{"frames": 3, "fps": 10.0, "substeps": 4, **options})


def estimate(**options):
    return gs.estimate(SCENE, TRACKS, **{"fps": 10.0, "substeps": 4, "corrections": 0, **options})


REFUSED = {
    "goal of no numbers": (lambda: gs.GoalState({"ball.position": "far"}), r"GoalState\.values\['ball\.position'\]"),
    "goal that is nowhere": (lambda: gs.GoalState({"ball.position": [math.nan] * 3}), "finite numbers"),
    "infinite goal": (lambda: gs.GoalState({"ball.position": (math.inf, 0, 0)}), "finite numbers"),
    "goal without a path": (lambda: gs.GoalState([(1, 0, 0)]), r"GoalState\.values = "),
    "goal without frames": (lambda: gs.GoalState({"ball.position": (1, 0, 0)}, frames=()), r"GoalState\.frames"),
    "goal in frame 1.5": (lambda: gs.GoalState({"ball.position": (1, 0, 0)}, frames=[1.5]), r"GoalState\.frames"),
    "weight NaN": (lambda: gs.GoalState({"ball.position": (1, 0, 0)}, weight=math.nan), r"GoalState\.weight = nan"),
    "goal of another shape": (lambda: control(gs.GoalState({"ball.position": torch.zeros(2)})), r"must fit \[1, 3\]"),
    "no goal": (lambda: control([]), "goal = "),
    "goal that is a number": (lambda: control(1.0), "goal = 1.0"),
    "effort that is a text": (lambda: control(effort="much"), "effort = 'much'"),
    "no starts": (lambda: control(starts=0), "starts = 0"),
    "fps that is a text": (lambda: control(fps="10"), "fps = '10'"),
    "seed below 0": (lambda: control(seed=-1), "seed = -1"),
    "stages without an optimizer": (lambda: control(stages=[gs.Moments()]), "pairs of a distance and an optimizer"),
    "stage of another kind": (lambda: control(stages=[(gs.Moments(), "adam")]), "optimizer = 'adam'"),
    "metric that is a number": (lambda: control(metric=1.0), "metric = 1.0"),
    "progress that is a number": (lambda: control(progress=1.0), "progress = 1.0"),
    "controls that are a list": (lambda: control(controls=[gs.Sinusoids(3)]), "policies by path"),
    "checkpoint that is a number": (lambda: control(checkpoint=5), "checkpoint = 5"),
    "rollout without a scene": (lambda: gs.rollout(None, {}, frames=3), "scene = None"),
    "rollout without policies": (lambda: gs.rollout(BLOCK, None, frames=3), "controls = None"),
    "minimize from no start": (lambda: gs.minimize(loss, SCENE, starts=0), "starts = 0"),
    "minimize from half a start": (lambda: gs.minimize(loss, SCENE, starts=1.5), r"starts = 1\.5"),
    "minimize with seed x": (lambda: gs.minimize(loss, SCENE, seed="x"), "seed = x"),
    "minimize with a class": (lambda: gs.minimize(loss, SCENE, gs.LBFGS), "optimizer = <class"),
    "minimize with a text": (lambda: gs.minimize(loss, SCENE, "adam"), "optimizer = 'adam'"),
    "minimize into a number": (lambda: gs.minimize(loss, SCENE, checkpoint=5), "checkpoint = 5"),
    "minimize into no folder": (lambda: gs.minimize(loss, SCENE, checkpoint="none/a.pt"), "no such folder"),
    "estimate with Adam": (lambda: estimate(optimizer=gs.Adam()), "must be a gs.GaussNewton"),
    "estimate with half a correction": (lambda: estimate(corrections=0.5), r"corrections = 0\.5"),
    "estimate with True starts": (lambda: estimate(starts=True), "starts = True"),
    "estimate with progress 1": (lambda: estimate(progress=1), "progress = 1"),
    "estimate with bootstrap yes": (lambda: estimate(bootstrap="yes"), "bootstrap = 'yes'"),
    "Adam with half an iteration": (lambda: gs.Adam(iterations=0.5), r"Adam\.iterations = 0\.5"),
    "Adam with a rate NaN": (lambda: gs.Adam(lr=math.nan), r"Adam\.lr = nan"),
    "Adam with one beta": (lambda: gs.Adam(betas=0.9), r"Adam\.betas = 0\.9"),
    "Adam with beta 1": (lambda: gs.Adam(betas=(0.9, 1.0)), r"Adam\.betas = 1\.0"),
    "LBFGS with a text": (lambda: gs.LBFGS(iterations="10"), r"LBFGS\.iterations = '10'"),
    "random search of width -1": (lambda: gs.RandomSearch(std=-1.0), r"RandomSearch\.std = -1\.0"),
    "no torch optimizer": (lambda: gs.TorchOptimizer(None), r"TorchOptimizer\.make = None"),
    "damping NaN": (lambda: gs.GaussNewton(damping=math.nan), r"GaussNewton\.damping = nan"),
    "steps of no length": (lambda: gs.MinimumNorm(max_step=0), r"MinimumNorm\.max_step = 0"),
    "products below 1": (lambda: gs.Adjoint(inner_iterations=0), r"Adjoint\.inner_iterations = 0"),
    "blur of a text": (lambda: gs.Blur("much"), r"Blur\.sigma = 'much'"),
    "endless blur": (lambda: gs.Blur(math.inf), r"Blur\.sigma = inf"),
    "weight of a text": (lambda: gs.Moments(size="x"), r"Moments\.size = 'x'"),
    "normalize 1": (lambda: gs.Cumulative(normalize=1), r"Cumulative\.normalize = 1"),
    "half an output": (lambda: gs.Sinusoids(0.5), r"Sinusoids\.outputs = 0\.5"),
    "outputs beyond memory": (lambda: gs.Sinusoids(10**9, waves=10**6), r"Sinusoids\.outputs = .* would take"),
    "waves that are a text": (lambda: gs.Sinusoids(3, waves="8"), r"Sinusoids\.waves = '8'"),
    "tied outputs beyond the last": (lambda: gs.Sinusoids(2, tied=[0, 10**12]), r"Sinusoids\.tied = int64"),
    "tied outputs that are no rows": (lambda: gs.Sinusoids(2, tied=[0.5, 1.0]), r"Sinusoids\.tied = float64"),
    "duration NaN": (lambda: gs.Keyframes(2, math.nan), r"Keyframes\.duration = nan"),
    "data set of half a pixel": (lambda: gs.datasets.Settings("rigid", side=8.5), r"side = 8\.5"),
    "data set of a list": (lambda: gs.datasets.Settings(["rigid"]), "kind = "),
    "data set without settings": (lambda: gs.datasets.generate("never", 1, None), "settings = None"),
    "data set of half a video": (
        lambda: gs.datasets.generate("never", 0.5, gs.datasets.Settings("rigid")),
        r"videos = 0\.5",
    ),
    "step of a scene that is none": (lambda: gs.stable_dt(None), "scene = None"),
    "step of no integrator": (lambda: gs.stable_dt(SCENE, "verlet"), "integrator = 'verlet'"),
    "costs at a text": (lambda: gs.compare_integrators(BLOCK, "5"), "frequency = '5'"),
    "video from a number": (lambda: gs.load_video(5), "path = 5"),
    "video into nothing": (lambda: gs.save_video(None, torch.zeros(2, 8, 8, 3), fps=10), "path = None"),
    "video of linear light, perhaps": (
        lambda: gs.save_video("a.npz", torch.zeros(2, 8, 8, 3), fps=10, linear=np.ones(3)),
        "linear = array",
    ),
    "video of quality NaN": (
        lambda: gs.save_video("a.mp4", torch.zeros(2, 8, 8, 3), fps=10, quality=math.nan),
        "quality = nan",
    ),
    "video of a list of codecs": (
        lambda: gs.save_video("a.mp4", torch.zeros(2, 8, 8, 3), fps=10, codec=["h264"]),
        "codec = ",
    ),
    "mesh from a list": (lambda: gs.load_mesh(["a.obj"]), "path = "),
    "robot from a number": (lambda: gs.load_robot(5), "path = 5"),
    "states from bytes": (lambda: gs.load_states(b"a.csv"), "path = b'a.csv'"),
    "name with a NUL": (lambda: gs.load_mesh("a\0b.obj"), "path = "),
    "True frames": (lambda: gs.simulate(BLOCK, frames=True), "frames = True"),
    "roughly an unknown": (lambda: estimate(roughly=gs.unknown(1.0)), "roughly = unknown"),
    "offset of three numbers": (lambda: estimate(offset=torch.ones(3)), "offset = tensor"),
    "damping part of a mapping": (lambda: gs.Rayleigh(mass=0.1, stiffness_part={}), r"Rayleigh\.stiffness_part = {}"),
    "motion at a text": (
        lambda: gs.simulate(gs.Scene([gs.Ball("b", radius=0.1, mass=1.0)]), frames=2).sample("now"),
        "times = 'now'",
    ),
    "values that are a number": (lambda: SCENE.with_values(1.0), r"values = 1\.0"),
    "recording of a text": (lambda: gs.identifiability(SCENE, frames="3"), "frames = '3'"),
    "recording of half a sample": (lambda: gs.identifiability(SCENE, frames=3, samples=0.5), r"samples = 0\.5"),
    "recording of no scene": (lambda: gs.identifiability(None, frames=3), "scene = None"),
    "design that is a number": (lambda: gs.best_design(SCENE, 5, frames=3), "design = 5"),
    "region of one number": (lambda: gs.Region(low=1.0), r"Region\.low = 1\.0"),
    "region from NaN": (lambda: gs.Region(low=(math.nan, None, None)), r"Region\.low = nan"),
    "sparse mass": (lambda: gs.Ball("b", radius=0.1, mass=torch.ones(1, dtype=torch.float64).to_sparse()), "dense"),
    "one key": (lambda: gs.Keyframes(2, 1.0, keys=1), r"Keyframes\.keys = 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_odd_argument_is_refused_by_name(case):
    attempt, message = REFUSED[case]
    with pytest.raises(GradsimError, match=message):
        attempt()


def test_targets_may_be_numbers_of_any_kind():
    for target in ((0.2, 0.0, 0.0), [0, 1, 2], np.ones(3, np.float32), torch.ones(3, dtype=torch.float32)):
        plan = control(gs.GoalState({"ball.position": target}), stages=[(gs.Moments(), gs.GaussNewton(iterations=1))])
        assert math.isfinite(plan.history[-1].loss)
