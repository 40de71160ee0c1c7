"""Control tasks as Gymnasium environments: its checker passes, episodes are deterministic and equal a simulation."""

import warnings

import numpy as np
import pytest
import torch

import gradsim as gs

gymnasium = pytest.importorskip("gymnasium")


def observe(motion):
    return torch.cat([motion["cube"].position[-1], motion["cube"].velocity[-1]])


def environment(**options):
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=1.0, position=(0.5, 0.3, 0.0))
    scene = gs.Scene([cube], ground=gs.Ground(mu=0.1))
    tilt = {"scene.gravity": ((-3.0, -9.81, 0.0), (3.0, -9.81, 0.0))}
    reward = lambda motion: -float(motion["cube"].position[-1, 0].abs())  # noqa: E731
    return gs.environment(scene, tilt, observe, reward, **{"steps": 8, "fps": 30, "substeps": 16, **options})


def test_checker_passes():
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checker recommends symmetric, normalized actions
        check_env(environment(), skip_render_check=True)


def test_steps_are_those_of_a_simulation():
    env = environment()
    env.reset(seed=0)
    gravity = np.array([1.0, -9.81, 0.0], dtype=np.float32)
    for _ in range(3):
        observation, _, terminated, truncated, _ = env.step(gravity)
    scene = env.scene.with_values({"scene.gravity": gravity.astype(np.float64)})
    expected = gs.simulate(scene, frames=4, fps=30, substeps=16)
    assert np.allclose(observation, observe(expected).numpy(), atol=1e-6)
    assert not terminated
    assert not truncated
    assert len(env.trajectory) == 2


def test_episodes_end_and_are_repeated_by_their_seed():
    place = lambda generator: {"cube.position": (generator.uniform(-1, 1), 0.3, 0.0)}  # noqa: E731
    env = environment(randomize=place)
    first, again, other = (env.reset(seed=seed)[0] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    ends = [env.step(env.action_space.sample())[3] for _ in range(8)]
    assert ends == [False] * 7 + [True]


def test_unknown_paths_are_refused():
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=1.0)
    with pytest.raises(gs.InvalidInput, match="the scene has"):
        gs.environment(gs.Scene([cube]), {"cube.thrust": (0.0, 1.0)}, observe, lambda _: 0.0)
