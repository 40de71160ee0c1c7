"""Checkpoints of estimate(): resumption, and refusal of other arguments."""

import copy
import dataclasses

import pytest
import torch

import gradsim as gs
from gradsim.fit import gauss_newton
from gradsim.fit.checkpoint import fingerprint
from gradsim.fit.gauss_newton import Prior, SolverState, iterate

PUSH = gs.Push(impulse=(1.5, 0.0, -0.5), start=0.1)


def bounced(mass, ke) -> gs.Scene:
    ball = gs.Rigid(
        "ball", gs.meshes.box(0.5), mass=mass, position=(0.0, 0.5, 0.0), velocity=(0.3, 0.0, 0.0), pushes=[PUSH]
    )
    camera = gs.Camera(eye=(0.0, 0.6, 3.0), target=(0.0, 0.4, 0.0), fov=45)
    return gs.Scene([ball], ground=gs.Ground(ke=ke, kd=10.0, kf=30.0, mu=0.3), camera=camera)


@pytest.fixture(scope="module")
def video() -> torch.Tensor:
    truth = bounced(1.0, 1500.0)
    motion = gs.simulate(truth, frames=12, fps=15, substeps=48, integrator=gs.RungeKutta4())
    noise = torch.randn(12, 24, 24, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return gs.render(truth, motion, (24, 24)) + 0.01 * noise


def scene() -> gs.Scene:
    return bounced(gs.unknown(2.0, low=0.5, high=4.0), gs.unknown(3000.0, low=500.0, high=6000.0))


OPTIONS = {"fps": 15, "substeps": 64, "starts": 2, "corrections": 0}


class Stop:
    """Interrupts an estimate after some iterations."""

    def __init__(self, after: int):
        self.after, self.stages = after, []

    def __call__(self, step) -> None:
        self.stages.append(step.name)
        if len(self.stages) == self.after:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def reference(video):
    stages = []
    fit = gs.estimate(scene(), video, progress=lambda step: stages.append(step.name), **OPTIONS)
    return fit, len(stages)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_an_interrupted_estimate_resumes(video, reference, tmp_path, monkeypatch, fraction):
    fit, count = reference
    file = tmp_path / "fit.pt"
    stop = Stop(max(2, int(fraction * count)))
    first = gs.estimate(scene(), video, checkpoint=file, progress=stop, **OPTIONS)
    assert first.status == "interrupted"
    iterations, iterate = [], gauss_newton.iterate

    def counted(*arguments, **options):
        for state in iterate(*arguments, **options):
            iterations.append(state.iterations)
            yield state

    monkeypatch.setattr(gauss_newton, "iterate", counted)
    second = gs.estimate(scene(), video, checkpoint=file, **OPTIONS)
    assert second.status == fit.status
    assert sum(k > 0 for k in iterations) <= count - stop.after + 2
    for path, value in fit.values.items():
        assert torch.equal(second.values[path], value)
        assert torch.equal(torch.stack(second.intervals[path]), torch.stack(fit.intervals[path]))


def valley(z: torch.Tensor) -> torch.Tensor:
    """Residuals [B, 4] of a curved valley, at z [B, 3]."""
    x, y, w = z.unbind(-1)
    return torch.stack([10.0 * (y - x**2), 1.0 - x, w * x - 0.3, torch.sin(3.0 * w) - 0.7], -1)


def copied(state: SolverState) -> SolverState:
    values = {item.name: getattr(state, item.name) for item in dataclasses.fields(state)}
    return SolverState(**copy.deepcopy(values))


@pytest.mark.parametrize("method", [gs.Differences(), gs.Adjoint()], ids=["dense", "matrix-free"])
@pytest.mark.parametrize("given", [False, True], ids=["", "with a Jacobian"])
def test_a_solver_continues_to_the_last_bit_from_every_iteration(method, given):
    if given and isinstance(method, gs.Adjoint):
        pytest.skip("takes no matrix")
    z = torch.tensor([[-1.2, 1.0, 0.4], [0.5, -2.0, 1.9]], dtype=torch.float64)
    bounds = (torch.full((3,), -3.0, dtype=torch.float64), torch.full((3,), 3.0, dtype=torch.float64))
    extra = {"jacobian": torch.ones(3, 4, dtype=torch.float64) if given else None}
    extra["prior"] = Prior(torch.zeros(3, dtype=torch.float64), torch.full((3,), 9.0, dtype=torch.float64))
    options = gs.GaussNewton(iterations=25, jacobian=method)
    states = [copied(state) for state in iterate(valley, z, bounds, options, **extra)]
    assert len(states) > 6
    sources = [state for state in states[1:-1] if state.memory]
    assert len(sources) > 3
    for last in sources:
        resumed = [copied(state) for state in iterate(valley, z, bounds, options, **extra, last=copied(last))]
        assert [state.iterations for state in resumed] == list(range(last.iterations, len(states)))
        for state, expected in zip(resumed, states[last.iterations :], strict=True):
            assert torch.equal(state.z, expected.z)
            assert torch.equal(state.cost, expected.cost)
            assert torch.equal(state.converged, expected.converged)


def test_a_finished_estimate_is_read_from_its_checkpoint(video, tmp_path, monkeypatch):
    file = tmp_path / "fit.pt"
    first = gs.estimate(scene(), video, checkpoint=file, **OPTIONS)

    def no_solve(*_, **__):
        raise AssertionError("a solve was repeated")

    monkeypatch.setattr("gradsim.fit.gauss_newton.iterate", no_solve)
    second = gs.estimate(scene(), video, checkpoint=file, **OPTIONS)
    for path, value in first.values.items():
        assert torch.equal(second.values[path], value)
        assert torch.equal(torch.stack(second.intervals[path]), torch.stack(first.intervals[path]))
    assert second.agreeing_starts == first.agreeing_starts


def test_a_checkpoint_of_other_arguments_is_refused(video, tmp_path):
    file = tmp_path / "fit.pt"
    gs.estimate(scene(), video, checkpoint=file, progress=Stop(2), **OPTIONS)
    other = video.clone()
    other[3, 4, 5, 0] += 1e-6
    for arguments, options in (
        ((scene(), other), {}),
        ((bounced(gs.unknown(2.0, low=0.5, high=5.0), 1500.0), video), {}),
        ((scene(), video), {"seed": 1}),
        ((scene(), video), {"robust": 0.1}),
    ):
        with pytest.raises(gs.InvalidInput, match="belongs to an estimate with another scene"):
            gs.estimate(*arguments, checkpoint=file, **{**OPTIONS, **options})
    file.write_text("nonsense")
    with pytest.raises(gs.InvalidInput, match=r"must be a checkpoint of gs\.estimate"):
        gs.estimate(scene(), video, checkpoint=file, **OPTIONS)
    with pytest.raises(gs.InvalidInput, match="no such folder"):
        gs.estimate(scene(), video, checkpoint=tmp_path / "missing" / "fit.pt", **OPTIONS)


def test_a_fingerprint_of_a_vector_with_one_unknown_has_no_addresses():
    def thrown(low: float) -> gs.Scene:
        return gs.Scene([gs.Ball("ball", radius=0.1, mass=1.0, velocity=(gs.unknown(1.0, low=low), 0.0, 0.0))])

    scenes = [thrown(0.5), thrown(0.5), thrown(0.6)]
    assert [fingerprint(one) == fingerprint(scenes[0]) for one in scenes] == [True, True, False]


def test_fingerprints_depend_on_all_numbers_and_on_nothing_else():
    video = torch.zeros(3, 4, 4, 3, dtype=torch.float64)
    texts = {
        fingerprint(scene(), gs.Pixels(video)),
        fingerprint(scene(), gs.Pixels(video)),
        fingerprint(scene(), gs.Pixels(video, noise=0.1)),
        fingerprint(scene(), gs.Pixels(video + 1e-12)),
        fingerprint(bounced(1.0, 2.0), gs.Pixels(video)),
        fingerprint([[1], 2]),
        fingerprint([1, [2]]),
    }
    assert len(texts) == 6
