"""Base inertial parameters of known chains, and that bodies with equal ones move equally."""

import numpy as np
import pytest
import torch

import gradsim as gs


def arm(masses=(1.5, 0.9), centers=(-0.2, -0.22), inertias=(0.02, 0.015)):
    def rod(k):
        return {"mass": masses[k], "center": (0.0, centers[k], 0.0), "inertia": np.diag([0.02, 1e-3, inertias[k]])}

    links = {
        "upper": gs.Link(gs.Revolute(angle=0.4), **rod(0)),
        "fore": gs.Link(gs.Revolute(angle=0.3), "upper", (0.0, -0.4, 0.0), **rod(1)),
    }
    return gs.Articulated("arm", links)


def test_those_of_a_planar_arm():
    found = {next(iter(base.terms)): base for base in gs.base_parameters(arm())}
    assert set(found) == {(link, name) for link in ("upper", "fore") for name in ("moment x", "moment y", "inertia zz")}
    second = found["upper", "moment y"]
    assert second.terms == pytest.approx({("upper", "moment y"): 1.0, ("fore", "mass"): -0.4})
    assert second.value == pytest.approx(-1.5 * 0.2 - 0.4 * 0.9)
    turning = found["upper", "inertia zz"]
    assert turning.terms == pytest.approx({("upper", "inertia zz"): 1.0, ("fore", "mass"): 0.16})
    assert turning.value == pytest.approx(0.02 + 1.5 * 0.04 + 0.16 * 0.9)
    assert str(second) == "upper moment y - 0.4 fore mass = -0.66"


def test_bodies_with_equal_base_parameters_move_equally():
    first = arm()
    mass = 1.3  # of the forearm; everything else follows
    center, upper = -0.22 * 0.9 / mass, -0.66 + 0.4 * mass
    inertia = 0.015 + 0.9 * 0.22**2 - mass * center**2
    about = 0.02 + 1.5 * 0.04 + 0.16 * 0.9 - 0.16 * mass
    second = arm((2.0, mass), (upper / 2.0, center), (about - upper**2 / 2.0, inertia))
    values = [[base.value for base in gs.base_parameters(body)] for body in (first, second)]
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    motions = [gs.simulate(gs.Scene([body]), frames=6, fps=10.0, substeps=50)["arm"].angles for body in (first, second)]
    torch.testing.assert_close(*motions, rtol=0, atol=1e-10)


def test_a_floating_link_has_all_ten():
    link = gs.Link(gs.Free(), mass=2.0, center=(0.1, 0.0, 0.2), inertia=np.diag([0.02, 0.03, 0.04]))
    assert len(gs.base_parameters(gs.Articulated("body", {"link": link}))) == 10


def test_other_bodies_are_refused():
    with pytest.raises(gs.InvalidInput, match="Articulated"):
        gs.base_parameters(gs.Ball("ball", radius=0.1, mass=1.0))
