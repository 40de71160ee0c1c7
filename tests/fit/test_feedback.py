"""Policies of state: many worlds, each with weights of its own, move as each would alone."""

import torch

import gradsim as gs
from gradsim.fit.drive import Driver, Rhythm


class Pull(torch.nn.Module):
    def __init__(self, start):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))

    def forward(self, seen):
        return self.weight * (1.0 - seen)


def test_worlds_of_weights():
    block = gs.Soft("block", gs.meshes.tet_box(0.2, 1), density=100.0, material=gs.NeoHookean(1e4, 1e4, 10.0))
    scene = gs.Scene([block], gravity=(0.0, 0.0, 0.0))

    def driven(start, weights=None):
        policy = gs.Feedback(Pull(start), lambda trajectory: trajectory["block"].position[..., -1, :])
        return Driver(scene, {"block.force": policy}).run(scene, Rhythm(30.0, 8), 5, weights=weights)

    weights = torch.tensor([0.2, 3.0], dtype=torch.float64, requires_grad=True)
    together = driven(9.0, {"block.force.weight": weights})
    assert together.trajectory["block"].position.shape == (2, 5, 3)
    assert together.signals["block.force"].shape == (2, 5, 3)
    ends = together.trajectory["block"].position[:, -1, 0]
    for k, weight in enumerate(weights.tolist()):
        alone = driven(weight)
        torch.testing.assert_close(together.trajectory["block"].vertices[k], alone.trajectory["block"].vertices)
    (slopes,) = torch.autograd.grad(ends.sum(), weights)
    assert (slopes > 0).all()
