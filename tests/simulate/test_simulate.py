"""`simulate`: frames, batches, memory, repeated and interleaved passes, continuation."""

import gc
import resource

import numpy as np
import pytest
import torch
from tests.simulate.scenes import beam

import gradsim as gs
from gradsim.check.gradcheck import adjoint_gradients
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.check.gradients import objective
from gradsim.scene.errors import OutOfMemory, OutOfRange, WrongShape
from gradsim.simulate import simulate as simulate_module
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine import engine, passes

F64 = torch.float64


def test_frames_are_states_at_multiples_of_the_frame_time():
    scene = gs.Scene([gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)), velocity=(1.0, 2.0, 0.0))])
    motion = gs.simulate(scene, frames=4, fps=10.0, substeps=50, integrator=gs.Midpoint())
    t = torch.arange(4, dtype=F64) / 10
    assert torch.allclose(motion.time, t)
    assert torch.allclose(motion["mass"].position[:, 0], t, atol=1e-12)
    assert torch.allclose(motion["mass"].position[:, 1], 2 * t - 0.5 * 9.81 * t * t, atol=1e-12)


def test_batch_of_64_equals_64_single_calls():
    moduli = torch.linspace(1e4, 3e4, 64, dtype=F64)
    together = gs.simulate(beam(moduli), frames=4, fps=30, substeps=40)
    assert together.vertices.shape == (64, 4, 45, 3)
    for k in range(64):
        alone = gs.simulate(beam(moduli[k]), frames=4, fps=30, substeps=40)
        scale = alone.vertices.abs().max()
        assert (together.vertices[k] - alone.vertices).abs().max() <= 1e-12 * scale
        assert (together.velocities[k] - alone.velocities).abs().max() <= 1e-12 * alone.velocities.abs().max()


def test_batched_gradients_equal_single_ones_and_batch_shapes_broadcast():
    moduli = torch.tensor([[1e4], [2e4]], dtype=F64, requires_grad=True)  # [2, 1]
    heights = torch.tensor([0.0, 0.1, 0.2], dtype=F64)
    position = torch.stack([torch.zeros(3), heights, torch.zeros(3)], -1).to(F64)  # [3, 3] -> batch [3]
    motion = gs.simulate(beam(moduli, position=position), frames=3, fps=30, substeps=40)
    assert motion.vertices.shape == (2, 3, 3, 45, 3)
    motion.vertices[..., -1, :, 1].sum().backward()
    single = torch.tensor(1e4, dtype=F64, requires_grad=True)
    gs.simulate(beam(single), frames=3, fps=30, substeps=40).vertices[-1, :, 1].sum().backward()
    assert moduli.grad[0, 0].item() == pytest.approx(3 * single.grad.item(), rel=1e-9)


def test_changes_of_arrays_in_place_affect_the_next_call():
    """Plain numbers are converted once; the cache compares values, not identities."""
    velocity = np.array([0.0, 1.0, 0.0])
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, velocity=velocity)
    scene = gs.Scene([cube], gravity=(0.0, 0.0, 0.0))
    first = gs.simulate(scene, frames=2, fps=1.0, substeps=4)["cube"].position[-1, 1].item()
    velocity[1] = 3.0
    second = gs.simulate(scene, frames=2, fps=1.0, substeps=4)["cube"].position[-1, 1].item()
    assert (first, second) == pytest.approx((1.0, 3.0))


def test_gradients_work_after_a_call_in_inference_mode():
    mesh = gs.meshes.box((0.3, 0.4, 0.5))  # used only here, so that nothing about it is cached

    def height(mass):
        cube = gs.Rigid("cube", mesh, mass=mass, position=(0.1, 0.7, 0.2), pushes=[gs.Push(force=(0.0, 1.0, 0.0))])
        return gs.simulate(gs.Scene([cube]), frames=2, substeps=4)["cube"].position[-1, 1]

    with torch.inference_mode():
        height(2.0)
    mass = torch.tensor(2.0, dtype=F64, requires_grad=True)
    height(mass).backward()
    assert mass.grad.item() < 0


def test_single_triangle_without_hinges():
    mesh = gs.TriMesh(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]), np.array([[0, 1, 2]]))
    sheet = gs.Cloth("sheet", mesh, 0.2, bending=gs.Bending(1e-3, 0.0))
    fallen = gs.simulate(gs.Scene([sheet], gravity=(0.0, -8.0, 0.0)), frames=2, fps=1.0, substeps=2000)
    assert fallen["sheet"].position[-1, 1].item() == pytest.approx(-4.0, rel=1e-3)


def test_all_finite_for_numbers_whose_sum_overflows():
    assert passes.all_finite(torch.full((4,), 1e308, dtype=F64))
    assert not passes.all_finite(torch.tensor([1.0, float("nan")]))
    assert not passes.all_finite(torch.tensor([float("inf"), -float("inf")]))


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[1], PROBLEMS[3]], ids=lambda p: p.name)
@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("steps", [30, 12], ids=["frame by frame", "checkpoints within a frame"])
def test_recomputed_gradients_equal_stored_ones(problem, integrator, steps, monkeypatch):
    values = problem.values()
    stored = adjoint_gradients(objective(problem, integrator), values)
    step_bytes = engine.engine_for(compile_scene(problem.build(values)), integrator).shards[0].step_bytes
    monkeypatch.setattr(simulate_module, "default_limit", lambda: steps * step_bytes)
    recomputed = adjoint_gradients(objective(problem, integrator), values)
    for name, gradient in stored.items():
        assert torch.allclose(recomputed[name], gradient, rtol=1e-12, atol=1e-13 * gradient.abs().max().item()), name


def test_out_of_memory_error_has_the_memory_needed():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    with pytest.raises(OutOfMemory, match=r"needs at least [\d.]+ [kM]B"):
        gs.simulate(beam(mu), frames=2, fps=1.0, substeps=800, memory=30_000)


def test_interleaved_forwards_and_repeated_backwards():
    a, b = (torch.tensor(mu, dtype=F64, requires_grad=True) for mu in (1e4, 2e4))

    def loss(mu):
        return gs.simulate(beam(mu), frames=3, substeps=40).vertices[-1, :, 1].sum()

    (reference_a,) = torch.autograd.grad(loss(a), a)
    (reference_b,) = torch.autograd.grad(loss(b), b)
    first, second = loss(a), loss(b)  # the second forward pass overwrites the history of the first
    second.backward(retain_graph=True)
    first.backward()
    second.backward()
    assert a.grad.item() == pytest.approx(reference_a.item(), rel=1e-12)
    assert b.grad.item() == pytest.approx(2 * reference_b.item(), rel=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        first.backward()


def test_second_derivatives_raise():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    loss = gs.simulate(beam(mu), frames=2, substeps=40).vertices.pow(2).sum()
    with pytest.raises(gs.BrokenGradient, match="gradients of gradients"):
        torch.autograd.grad(loss, mu, create_graph=True)


def test_new_parameter_values_reuse_the_engine():
    gs.simulate(beam(1e4), frames=2, substeps=40)
    before = list(engine.ENGINES.values())
    gs.simulate(beam(1.5e4), frames=3, substeps=40)
    assert list(engine.ENGINES.values()) == before
    assert engine.engine_for(compile_scene(beam(2e4)), gs.Midpoint()) is before[-1]


def test_continuing_equals_one_rollout_and_gradients_flow_through():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    whole = gs.simulate(beam(mu), frames=5, substeps=40)
    first = gs.simulate(beam(mu), frames=3, substeps=40)
    second = gs.simulate(beam(mu), frames=3, substeps=40, start=first.final)
    assert torch.equal(second.vertices[-1], whole.vertices[-1])
    assert torch.allclose(second.time, whole.time[2:])
    (one,) = torch.autograd.grad(whole.vertices[-1].pow(2).sum(), mu)
    (two,) = torch.autograd.grad(second.vertices[-1].pow(2).sum(), mu)
    assert one.item() == pytest.approx(two.item(), rel=1e-12)


def test_float32_agrees_with_float64():
    mu = torch.tensor(1e4, dtype=torch.float32, requires_grad=True)
    single = gs.simulate(beam(mu), frames=3, substeps=40)
    assert single.vertices.dtype == torch.float32
    single.vertices[-1, :, 1].sum().backward()
    exact = torch.tensor(1e4, dtype=F64, requires_grad=True)
    double = gs.simulate(beam(exact), frames=3, substeps=40)
    double.vertices[-1, :, 1].sum().backward()
    assert (single.vertices.double() - double.vertices).abs().max() < 1e-5
    assert mu.grad.item() == pytest.approx(exact.grad.item(), rel=1e-3)
    requested = gs.simulate(beam(1e4), frames=2, substeps=40, dtype=torch.float32)
    assert requested.vertices.dtype == torch.float32


def test_bodies_move_as_in_scenes_of_their_own():
    cloth = gs.Cloth(
        "sheet",
        gs.meshes.grid((0.3, 0.3), (3, 3)),
        0.5,
        bending=gs.Bending(0.01),
        actuation=gs.Signal([0.0, 0.1]),
        position=(0.0, 2.0, 0.0),
    )
    soft = gs.Soft(
        "box",
        gs.meshes.tet_box(0.2, 1),
        300.0,
        material=gs.NeoHookean(1e4, 1e4, 1.0),
        actuation=gs.Signal([0.0, 0.3, -0.2]),
        force=(0.1, 0.0, 0.0),
    )
    chain = gs.Springs("chain", *gs.meshes.chain(1.0, 4), mass=0.1, pinned=[0])
    ground = gs.Ground(ke=100.0, kd=0.1, kf=1.0)
    together = gs.simulate(gs.Scene([cloth, soft, chain], ground), frames=4, substeps=250)
    for body in (cloth, soft, chain):
        alone = gs.simulate(gs.Scene([body], ground), frames=4, substeps=250)
        gap = (together[body.name].vertices - alone[body.name].vertices).abs().max()
        assert gap < 1e-12, body.name


def test_signals_are_linear_between_samples():
    """A force that increases from 0 to 1 N over the rollout gives v = t^2 / (2 m T)."""
    mass, end = 2.0, 0.5
    push = gs.Signal([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    body = gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)), mass=mass, force=push)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=6, fps=10.0, substeps=10, integrator=gs.Midpoint())
    expected = motion.time**2 / (2 * mass * end)
    assert torch.allclose(motion["mass"].velocity[:, 0], expected, atol=1e-12)


def test_long_rollout_in_bounded_memory():
    """30,000 steps of 1,000 tetrahedra with correct gradients in less than 1 GB."""
    values = torch.tensor([2e4, 2e4], dtype=F64)

    def tip(p, **options):
        scene = beam(p[..., 0], lam=p[..., 1], cells=(8, 5, 5), damping=20.0)
        motion = gs.simulate(scene, frames=11, fps=1.0, substeps=3000, **options)
        return motion.vertices[..., -1, -1, 1]

    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    leaf = values.clone().requires_grad_()
    tip(leaf, memory=200e6).backward()
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert used < 1e9
    step = 1e-5 * values[:, None] * torch.eye(2, dtype=F64)
    with torch.no_grad():
        ends = tip(torch.cat([values + step.T, values - step.T]))
    difference = (ends[:2] - ends[2:]) / (2e-5 * values)
    assert torch.allclose(difference, leaf.grad, rtol=1e-5)


def test_histories_of_all_scenes_share_one_limit():
    for cells in ((2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1)):
        mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
        end = gs.simulate(beam(mu, cells=cells), frames=5, substeps=50, memory=2e6).vertices[-1].sum()
        assert sum(e.history_bytes for e in engine.ENGINES.values()) <= 2e6 + 2e5  # the others keep one step each
    end.backward()


def test_a_loss_that_is_not_finite_raises_broken_gradient():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    end = gs.simulate(beam(mu), frames=2, substeps=40).vertices[-1]
    with pytest.raises(gs.BrokenGradient, match="look at the loss"):
        (end * float("nan")).sum().backward()


def test_springs_with_coincident_ends_stay_finite():
    points = np.array([[-0.1, 0.0, 0.0], [0.1, 0.0, 0.0]])
    pair = gs.Springs("pair", points, [[0, 1]], stiffness=0.0, velocity=gs.per_element([[1.0, 0, 0], [-1.0, 0, 0]]))
    motion = gs.simulate(gs.Scene([pair], gravity=(0, 0, 0)), frames=3, fps=10.0, substeps=8)
    assert torch.allclose(motion.vertices[1, 0], motion.vertices[1, 1], atol=1e-15)
    assert torch.isfinite(motion.vertices).all()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"frames": 0}, OutOfRange, "frames = 0"),
        ({"frames": 2, "substeps": 0}, OutOfRange, "substeps = 0"),
        ({"frames": 2, "fps": -1.0}, OutOfRange, "fps = -1.0"),
        ({"frames": 2.5}, OutOfRange, "frames = 2.5"),
        ({"frames": 2, "integrator": "euler"}, gs.InvalidInput, "integrator = 'euler': must be an integrator"),
    ],
)
def test_invalid_options_raise_errors_with_their_names(options, error, words):
    with pytest.raises(error, match=words):
        gs.simulate(beam(1e4), **options)


def test_start_must_fit_the_scene():
    other = gs.simulate(beam(1e4, cells=(2, 2, 2)), frames=2, substeps=40).final
    with pytest.raises(WrongShape, match=r"start\.vertices"):
        gs.simulate(beam(1e4), frames=2, start=other)
