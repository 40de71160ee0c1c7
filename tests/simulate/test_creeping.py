"""Bodies that creep because of the default friction are named in a warning, once; all others are not."""

import math
import warnings

import numpy as np
import pytest

import gradsim as gs

TIME = {"frames": 31, "fps": 30.0, "substeps": 64}
FIRM = {"ke": 1e4, "kd": 30.0, "mu": 0.6}
ROLLING = {"velocity": (0.1, 0.0, 0.0), "angular_velocity": (0.0, 0.0, -1.0)}


def tilted(degrees):
    return (9.81 * math.sin(math.radians(degrees)), -9.81 * math.cos(math.radians(degrees)), 0.0)


def block(name="block", height=0.0495, **more):
    return gs.Rigid(name, gs.meshes.box((0.2, 0.1, 0.2)), mass=1.0, position=(0.0, height, 0.0), **more)


def silent(scene, **time):
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.ContactWarning)
        return gs.simulate(scene, **(TIME | time))


def test_block_that_creeps_on_a_slope():
    scene = gs.Scene([block()], gs.Ground(**FIRM), gravity=tilted(15.0))
    with pytest.warns(gs.ContactWarning, match=r"'block' creeps at 0\.07\d* m/s .*friction=gs.Sticking\(\)"):
        run = gs.simulate(scene, **TIME)
    assert float(run["block"].position[-1, 0]) > 0.05
    silent(scene)  # once


@pytest.mark.parametrize(
    "choice", [{"friction": gs.Sticking()}, {"friction": gs.Regularized()}, {"kf": 20.0}, {"mu": 0.0}], ids=str
)
def test_friction_that_was_chosen_is_not_questioned(choice):
    silent(gs.Scene([block()], gs.Ground(**(FIRM | choice)), gravity=tilted(15.0)))


def test_a_lower_block_is_named_and_not_the_one_that_it_carries():
    contact = gs.Contact(**FIRM, kf=150.0)  # the upper block slips ten times slower
    both = [block("lower", contact={"upper": contact}), block("upper", 0.149, contact={"lower": contact})]
    scene = gs.Scene(both, gs.Ground(**FIRM), gravity=tilted(10.0))
    with pytest.warns(gs.ContactWarning) as caught:
        gs.simulate(scene, **TIME)
    assert [str(warning.message).split()[0] for warning in caught] == ["'lower'"]


@pytest.mark.parametrize(
    "scene",
    [
        gs.Scene([block(velocity=(0.5, 0.0, 0.0))], gs.Ground(**FIRM)),
        gs.Scene([block()], gs.Ground(**FIRM), gravity=tilted(40.0)),
        gs.Scene([block()], gs.Ground(**FIRM, surface_velocity=(0.05, 0.0, 0.0))),
        gs.Scene([block(height=3.0, velocity=(0.05, 0.0, 0.0))], gs.Ground(**FIRM)),
        gs.Scene([block(velocity=(0.1, 0.0, 0.0))], gravity=(0.0, 0.0, 0.0)),
        gs.Scene([block()], gs.Ground(**(FIRM | {"mu": 0.0})), gravity=tilted(1.0)),
        gs.Scene([gs.Ball("ball", radius=0.1, position=(0, 0.0995, 0), mass=1.0, **ROLLING)], gs.Ground(**FIRM)),
    ],
    ids=["comes to rest", "slides", "on a belt", "falls", "flies", "on ice", "rolls"],
)
def test_other_motions_are_not_creeping(scene):
    silent(scene)


def test_a_block_on_a_body_that_moves_is_not_creeping():
    path = np.zeros((2, 3))
    path[1, 0] = 0.05
    table = gs.Rigid("table", gs.meshes.box((2.0, 0.2, 1.0)), mass=5.0, motion=gs.Motion(gs.Signal(path)))
    carried = block(height=0.149, velocity=(0.05, 0.0, 0.0), contact=gs.Contact(**FIRM))
    silent(gs.Scene([table, carried]))


def test_a_heavy_block_that_default_friction_does_not_stop():
    heavy = gs.Rigid(
        "crate", gs.meshes.box(0.5), mass=1000.0, position=(0.0, 0.247, 0.0), velocity=(0.5, 0.0, 0.0),
        contact=gs.Contact(ke=1e6, kd=1e4),
    )  # fmt: skip
    with pytest.warns(gs.ContactWarning, match="'crate' creeps at 0.4"):
        gs.simulate(gs.Scene([heavy], gs.Ground()), **TIME)
