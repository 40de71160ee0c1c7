"""Checkpoints of estimate(): resumption, and refusal of other arguments."""

import pytest
import torch

import gradsim as gs
from gradsim.fit import gauss_newton
from gradsim.fit.checkpoint import fingerprint

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
        torch.testing.assert_close(second.values[path], value, rtol=1e-6, atol=0.0)


def test_a_finished_estimate_is_read_from_its_checkpoint(video, tmp_path, monkeypatch):
    file = tmp_path / "fit.pt"
    first = gs.estimate(scene(), video, checkpoint=file, **OPTIONS)

    def no_solve(*_, **__):
        raise AssertionError("a solve was repeated")

    monkeypatch.setattr("gradsim.fit.gauss_newton.iterate", no_solve)
    second = gs.estimate(scene(), video, checkpoint=file, **OPTIONS)
    for path, value in first.values.items():
        assert torch.equal(second.values[path], value)
        torch.testing.assert_close(second.intervals[path], first.intervals[path], rtol=1e-6, atol=0.0)
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
