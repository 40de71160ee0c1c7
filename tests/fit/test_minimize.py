"""minimize() with all its optimizers."""

import pytest
import torch

import gradsim as gs

TARGET = torch.tensor([0.4, 0.9, 0.0], dtype=torch.float64)


def thrown(velocity=gs.unknown((1.0, 1.0, 0.5))) -> gs.Scene:
    return gs.Scene([gs.Rigid("ball", gs.meshes.icosphere(0.2, 1), mass=1.0, velocity=velocity)])


def position_error(scene: gs.Scene) -> torch.Tensor:
    end = gs.simulate(scene, frames=2, fps=2, substeps=8)["ball"].position[..., -1, :]
    return end - TARGET


@pytest.mark.parametrize(
    ("optimizer", "tolerance"),
    [
        (gs.GaussNewton(), 1e-10),
        (gs.LBFGS(), 1e-8),
        (gs.Adam(iterations=300, lr=0.05), 1e-2),
        (gs.TorchOptimizer(lambda p: torch.optim.SGD(p, lr=0.5), iterations=200), 1e-3),
    ],
    ids=lambda o: type(o).__name__,
)
@pytest.mark.parametrize("starts", [1, 3])
def test_throws_hit_their_target(optimizer, tolerance, starts):
    newton = isinstance(optimizer, gs.GaussNewton)
    loss = position_error if newton else lambda scene: (position_error(scene) ** 2).sum(-1)
    best = gs.minimize(loss, thrown(), optimizer, starts=starts)
    assert float(position_error(best.scene).norm()) < tolerance
    assert best.losses.shape == (starts,)
    assert best.history[-1][1] == best.loss


def test_interrupting_returns_the_best_so_far():
    def progress(iteration, best):
        if iteration == 5:
            raise KeyboardInterrupt

    best = gs.minimize(lambda s: (position_error(s) ** 2).sum(-1), thrown(), gs.Adam(), progress=progress)
    assert best.status == "interrupted"
    assert best.loss == min(loss for _, loss, _ in best.history)


def test_search_continues_from_a_checkpoint(tmp_path):
    file = tmp_path / "points.pt"
    loss = lambda s: (position_error(s) ** 2).sum(-1)  # noqa: E731
    first = gs.minimize(loss, thrown(), gs.Adam(iterations=30), checkpoint=file)
    second = gs.minimize(loss, thrown(), gs.Adam(iterations=1), checkpoint=file)
    assert second.loss == pytest.approx(first.loss, rel=1e-9)
    file.write_text("nonsense")
    with pytest.raises(gs.InvalidInput, match="must be a checkpoint"):
        gs.minimize(loss, thrown(), checkpoint=file)


def test_loss_of_wrong_shape():
    with pytest.raises(gs.InvalidInput, match="one number per world"):
        gs.minimize(position_error, thrown(), gs.Adam(iterations=2))


def test_divergence_returns_the_best_so_far():
    pendulum = gs.Pendulum("bob", length=gs.unknown(1.0, low=0.1, high=10.0), angle=0.5)
    calls = []

    def loss(scene):
        calls.append(scene)
        if len(calls) == 4:
            raise gs.Diverged("bob", 3, 0.1, 0, 1.0, 0.1)
        return (scene["bob"].length - 2.0) ** 2

    found = gs.minimize(loss, gs.Scene([pendulum]), gs.Adam(iterations=10, lr=0.1))
    assert found.status == "diverged"
    assert "bob" in found.advice
    assert found.loss < 1.0
