"""Nuisances of contact parameters: of pairs of bodies, of sticking friction, and of nodes."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.nuisances.catalogue import nuisances
from gradsim.scene.quantity import to_numpy

F64 = torch.float64
AMOUNTS = torch.tensor([0.0, 0.3], dtype=F64)


def contact_nuisances(scene):
    return {item.path: item for item in nuisances(scene, fps=30.0) if item.group == "contact"}


def boxes(contact=None, **more):
    low = gs.Rigid("low", gs.meshes.box(0.4), mass=3.0, contact=contact)
    return gs.Scene([low, gs.Rigid("top", gs.meshes.box(0.2), mass=1.0, position=(0.0, 0.3, 0.0))], **more)


def simulated(scene):
    """Positions of the upper box, [worlds, 3]."""
    return gs.simulate(scene, frames=2, fps=20.0, substeps=50)["top"].position[..., -1, :]


def test_parameters_of_a_named_pair_are_changed():
    contact = gs.Contact(ke=2e4, mu=0.4, restitution=0.6)
    scene = boxes(pairs={"low-top": contact})
    found = contact_nuisances(scene)
    fields = ("ke", "kf", "mu", "delta", "restitution", "restitution_slope")
    assert set(found) == {f"pairs.low-top.{field}" for field in fields}
    changed = found["pairs.low-top.mu"].scene(scene, AMOUNTS).pairs["low-top"]
    assert changed.mu.tolist() == pytest.approx([0.4, 0.4 * np.exp(0.3)])
    depth = found["pairs.low-top.delta"].scene(scene, AMOUNTS).pairs["low-top"].delta
    assert depth.tolist() == pytest.approx([0.001, 0.001 * np.exp(0.3)])  # of the smaller body
    assert "contact stiffness of low-top" in found["pairs.low-top.ke"].describe(0.3)
    assert contact_nuisances(boxes(pairs={"low-top": None})) == contact_nuisances(boxes(pairs=False)) == {}


@pytest.mark.parametrize("scene", [boxes(), boxes(gs.Contact(ke=5e3)), boxes({"top": gs.Contact(ke=5e3)})])
def test_every_nuisance_of_a_pair_changes_its_motion_and_none_does_at_zero(scene):
    """Without contact parameters, with those of one body, and with those of one body for the other."""
    turned = dataclasses.replace(scene["top"], velocity=(1.0, -1.0, 0.0), position=(0.0, 0.31, 0.0))
    scene = dataclasses.replace(scene, bodies=[scene["low"], turned])
    own, found = simulated(scene), contact_nuisances(scene)
    assert {path.rsplit(".", 1)[-1] for path in found} >= {"ke", "kd", "kf", "mu"}
    for path, nuisance in found.items():
        same, other = simulated(nuisance.scene(scene, AMOUNTS))
        assert torch.allclose(same, own, rtol=0.0, atol=1e-15), path
        assert (other - own).abs().max() > 1e-8, path


def test_sticking_friction_has_no_kf():
    """Its damping is a fraction for a time step, not a parameter of the surfaces."""
    sticking = gs.Contact(mu=0.4, friction=gs.Sticking())
    ground = gs.Ground(mu=0.4, friction=gs.Sticking())
    scene = boxes(ground=ground, pairs={"low-top": sticking})
    found = contact_nuisances(scene)
    assert {"ground.mu", "pairs.low-top.mu"} <= set(found)
    assert not [path for path in found if path.endswith(".kf")]
    for nuisance in found.values():
        nuisance.scene(scene, AMOUNTS)


def test_contact_of_nodes_is_changed():
    cloth = gs.Cloth("cloth", gs.meshes.grid(0.4, 4), 0.5, self_contact=gs.SelfContact(mu=0.0))
    ball = gs.Ball("ball", radius=0.1, mass=1.0, position=(0.0, 0.2, 0.0))
    scene = gs.Scene([cloth, ball], forces=[gs.NodeContact("touch", body="cloth", rigid="ball")])
    found = contact_nuisances(scene)
    assert {"touch.ke", "touch.delta", "cloth.self_contact.ke", "cloth.self_contact.mu"} <= set(found)
    changed = found["touch.delta"].scene(scene, AMOUNTS).forces[0].delta
    assert changed.tolist() == pytest.approx([0.001, 0.001 * np.exp(0.3)])
    friction = found["cloth.self_contact.mu"].scene(scene, AMOUNTS)["cloth"].self_contact.mu
    assert to_numpy(friction).tolist() == pytest.approx([0.0, 0.3])
