"""Nuisances of the shape of rigid bodies: batched stretches equal bodies with stretched meshes."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.nuisances.nuisance import apply, batches, is_excluded
from gradsim.fit.nuisances.shape import STRETCHES, shape_nuisances
from gradsim.scene.meshes import TriMesh

F64 = torch.float64
BOX = gs.meshes.box((0.3, 0.2, 0.25))


def toss(mesh=BOX, **options) -> gs.Scene:
    body = gs.Rigid(
        "body",
        mesh,
        density=200.0,
        position=(0.0, 0.2, 0.0),
        rotation=(0.2, 0.0, 0.6, 2.0),
        velocity=(1.0, -1.5, 0.4),
        **options,
    )
    return gs.Scene([body], gs.Ground(1e3, kd=3.0))


def end(scene: gs.Scene) -> torch.Tensor:
    """Returns the vertices of the last frame [m], [..., V, 3]."""
    return gs.simulate(scene, frames=6, fps=50, substeps=40)["body"].vertices[..., -1, :, :]


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0), (0.1, -0.3, 0.2)])
def test_stretches_of_all_worlds_equal_stretched_meshes(shift):
    mesh = TriMesh(BOX.vertices + np.array(shift), BOX.faces)
    nuisances = tuple(shape_nuisances(toss(mesh)))
    assert [nuisance.path for nuisance in nuisances] == [f"body.{name}" for name in STRETCHES]
    assert len(batches(nuisances)) == 1
    amounts = 3.0 * torch.eye(3, dtype=F64)  # [%]
    found = end(apply(toss(mesh), nuisances, {n.path: amounts[k] for k, n in enumerate(nuisances)}))
    for k, exponents in enumerate(STRETCHES.values()):
        factors = np.exp(0.03 * np.array(exponents))
        stretched = TriMesh(BOX.vertices * factors + np.array(shift), BOX.faces)
        assert (found[k] - end(toss(stretched))).abs().max() < 1e-12


def test_no_amount_is_no_change_and_a_size_of_its_own_is_scaled():
    own = toss(size=(0.6, 0.4, 0.5))
    (nuisance, *_) = shape_nuisances(own)
    assert (end(apply(own, [nuisance], {nuisance.path: torch.zeros((), dtype=F64)})) - end(own)).abs().max() < 1e-13
    larger = apply(own, [nuisance], {nuisance.path: torch.tensor(10.0, dtype=F64)})["body"].size
    assert torch.allclose(larger, torch.exp(torch.tensor(0.1, dtype=F64)) * torch.tensor([0.6, 0.4, 0.5], dtype=F64))


def test_an_unknown_size_has_no_nuisance():
    (nuisance, *_) = shape_nuisances(toss(size=(0.6, 0.4, 0.5)))
    assert is_excluded(nuisance, ["body.size[1]"])
    assert not is_excluded(nuisance, ["body.mass"])


def test_a_given_center_is_stretched_with_the_body():
    scene = toss(center=(0.03, 0.0, -0.02))
    (nuisance, *_) = shape_nuisances(scene)
    changed = apply(scene, [nuisance], {nuisance.path: torch.tensor(10.0, dtype=F64)})["body"]
    assert changed.center.tolist() == pytest.approx([0.03 * np.exp(0.1), 0.0, -0.02 * np.exp(0.1)])
    assert np.array_equal(changed.position, scene["body"].position)
