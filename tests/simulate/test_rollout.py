"""simulate(): batches, memory, repeated and interleaved passes, continuation, divergence."""

import gc
import math
import resource
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradients import gradients, objective
from gradsim.check.zoo import PROBLEMS
from gradsim.scene.errors import OutOfMemory, OutOfRange, WrongShape
from gradsim.simulate import engine, rollout
from gradsim.simulate.assemble import assemble

F64 = torch.float64


def beam(mu, *, cells=(4, 2, 2), lam=2e4, damping=5.0, **more):
    mesh = gs.meshes.tet_box((0.1 * cells[0], 0.1 * cells[1], 0.1 * cells[2]), cells)
    edge = -0.05 * cells[0] + 1e-6
    body = gs.Soft(
        "beam", mesh, 500.0, material=gs.NeoHookean(mu, lam, damping), pinned=gs.Region(high=(edge, None, None)), **more
    )
    return gs.Scene([body])


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


def test_threads_do_not_change_results():
    moduli = torch.linspace(1e4, 3e4, 5, dtype=F64, requires_grad=True)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            moduli.grad = None
            motion = gs.simulate(beam(moduli), frames=3, substeps=40)
            motion.vertices[..., -1, :, 1].sum().backward()
            results.append((motion.vertices.detach(), moduli.grad))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("problem", [PROBLEMS[1], PROBLEMS[4]], ids=lambda p: p.name)
def test_threads_do_not_change_the_last_bit_of_odd_meshes(problem, dtype):
    """Ten tetrahedra or eighteen triangles do not fill blocks of eight or sixteen lanes."""
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            values = {n: torch.stack([v, 1.01 * v, 0.99 * v]).to(dtype) for n, v in problem.values().items()}
            leaves = {name: value.requires_grad_() for name, value in values.items()}
            states = gs.simulate(problem.build(leaves), frames=3, fps=problem.fps, substeps=10).states
            sum(state.square().sum() for state in states.values()).backward()
            results.append([*(s.detach() for s in states.values()), *(leaf.grad for leaf in leaves.values())])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(
    ("worlds", "threads", "together", "bounds"),
    [
        (16, 2, 1, [0, 8, 16]),
        (5, 3, 1, [0, 1, 3, 5]),
        (2, 4, 1, [0, 1, 2]),
        (16, 2, 16, [0, 16]),  # one block of lanes: a second thread would repeat the work of the first
        (16, 2, 8, [0, 8, 16]),
        (19, 3, 8, [0, 8, 16, 19]),
        (100, 2, 16, [0, 48, 100]),
    ],
)
def test_shares_are_whole_groups_of_worlds(worlds, threads, together, bounds):
    assert engine.share_bounds(worlds, threads, together) == bounds


def test_rigid_bodies_alone_are_shared_in_blocks_of_lanes():
    def shares(bodies, dtype):
        assembly = assemble(gs.Scene(bodies, ground=gs.Ground()), dtype=dtype)
        made = engine.Engine(assembly.topology, 16, gs.SymplecticEuler(), dtype, assembly.device, threads=2)
        return [shard.world_count for shard in made.shards]

    cube, mass = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0), gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)))
    assert shares([cube], torch.float32) == [16]
    assert shares([cube], F64) == [8, 8]
    assert shares([cube, mass], torch.float32) == [8, 8]


def test_torch_keeps_its_number_of_threads():
    moduli = torch.linspace(1e4, 3e4, 4, dtype=F64, requires_grad=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        gs.simulate(beam(moduli), frames=2, substeps=40).vertices.sum().backward()
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:  # a thread made later starts with as many
            assert pool.submit(torch.get_num_threads).result() == 3
        with pytest.raises(gs.Diverged), pytest.warns(gs.StabilityWarning):
            gs.simulate(beam(1e6 * moduli), frames=3, fps=10.0, substeps=10)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_arrays_written_to_are_seen_by_the_next_call():
    """Plain numbers are flattened once; numbers, not arrays, tell whether they are the same."""
    velocity = np.array([0.0, 1.0, 0.0])
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, velocity=velocity)
    scene = gs.Scene([cube], gravity=(0.0, 0.0, 0.0))
    first = gs.simulate(scene, frames=2, fps=1.0, substeps=4)["cube"].position[-1, 1].item()
    velocity[1] = 3.0
    second = gs.simulate(scene, frames=2, fps=1.0, substeps=4)["cube"].position[-1, 1].item()
    assert (first, second) == pytest.approx((1.0, 3.0))


def test_constants_of_inference_mode_do_not_hinder_gradients():
    mesh = gs.meshes.box((0.3, 0.4, 0.5))  # of this test alone: nothing of it is known yet

    def height(mass):
        cube = gs.Rigid("cube", mesh, mass=mass, position=(0.1, 0.7, 0.2), pushes=[gs.Push(force=(0.0, 1.0, 0.0))])
        return gs.simulate(gs.Scene([cube]), frames=2, substeps=4)["cube"].position[-1, 1]

    with torch.inference_mode():
        height(2.0)
    mass = torch.tensor(2.0, dtype=F64, requires_grad=True)
    height(mass).backward()
    assert mass.grad.item() < 0


def test_a_single_triangle_has_nothing_to_bend():
    mesh = gs.TriMesh(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]), np.array([[0, 1, 2]]))
    sheet = gs.Cloth("sheet", mesh, 0.2, bending=gs.Bending(1e-3, 0.0))
    fallen = gs.simulate(gs.Scene([sheet], gravity=(0.0, -8.0, 0.0)), frames=2, fps=1.0, substeps=2000)
    assert fallen["sheet"].position[-1, 1].item() == pytest.approx(-4.0, rel=1e-3)


def test_large_finite_numbers_are_finite():
    assert engine.all_finite(torch.full((4,), 1e308, dtype=F64))
    assert not engine.all_finite(torch.tensor([1.0, float("nan")]))
    assert not engine.all_finite(torch.tensor([float("inf"), -float("inf")]))


def test_workers_record_no_gradients():
    moduli = torch.linspace(1e4, 3e4, 4, dtype=F64, requires_grad=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for _ in range(3):
            gs.simulate(beam(moduli), frames=2, substeps=40).vertices.sum().backward()
        with torch.no_grad():
            gs.simulate(beam(moduli), frames=2, substeps=40)
    finally:
        torch.set_num_threads(before)
    shards = [shard for e in engine._engines.values() for shard in e.shards]
    assert any(len(e.shards) > 1 for e in engine._engines.values())
    tensors = [b.tensor for s in shards for b in s.buffers.values()] + [
        t.tensor for s in shards for t in s.tables.values()
    ]
    assert all(tensor.grad_fn is None for tensor in tensors)


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[1], PROBLEMS[3]], ids=lambda p: p.name)
@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("steps", [30, 12], ids=["a frame at a time", "checkpoints within a frame"])
def test_recomputed_gradients_equal_kept_ones(problem, integrator, steps, monkeypatch):
    values = problem.values()
    kept = gradients(objective(problem, integrator), values)
    step_bytes = engine.engine_for(assemble(problem.build(values)), integrator).shards[0].step_bytes
    monkeypatch.setattr(rollout, "default_limit", lambda: steps * step_bytes)
    recomputed = gradients(objective(problem, integrator), values)
    for name, gradient in kept.items():
        assert torch.allclose(recomputed[name], gradient, rtol=1e-12, atol=1e-13 * gradient.abs().max().item()), name


def test_too_little_memory_says_how_much_is_needed():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    with pytest.raises(OutOfMemory, match="needs at least .* MB"):
        gs.simulate(beam(mu), frames=2, fps=1.0, substeps=400, memory=30_000)


def test_interleaved_forwards_and_repeated_backwards():
    a, b = (torch.tensor(mu, dtype=F64, requires_grad=True) for mu in (1e4, 2e4))

    def loss(mu):
        return gs.simulate(beam(mu), frames=3, substeps=40).vertices[-1, :, 1].sum()

    (reference_a,) = torch.autograd.grad(loss(a), a)
    (reference_b,) = torch.autograd.grad(loss(b), b)
    first, second = loss(a), loss(b)  # the second forward goes over the first one's memory
    second.backward(retain_graph=True)
    first.backward()
    second.backward()
    assert a.grad.item() == pytest.approx(reference_a.item(), rel=1e-12)
    assert b.grad.item() == pytest.approx(2 * reference_b.item(), rel=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        first.backward()


def test_second_derivatives_are_refused():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    loss = gs.simulate(beam(mu), frames=2, substeps=40).vertices.pow(2).sum()
    with pytest.raises(gs.BrokenGradient, match="gradients of gradients"):
        torch.autograd.grad(loss, mu, create_graph=True)


def test_new_parameter_values_reuse_the_engine():
    gs.simulate(beam(1e4), frames=2, substeps=40)
    before = dict(engine._engines)
    graphs = {id(s): dict(s._graphs) for e in before.values() for s in e.shards}
    gs.simulate(beam(1.5e4), frames=3, substeps=40)
    assert engine._engines == before
    assert {id(s): dict(s._graphs) for e in engine._engines.values() for s in e.shards} == graphs


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


def test_float32_follows_float64():
    mu = torch.tensor(1e4, dtype=torch.float32, requires_grad=True)
    single = gs.simulate(beam(mu), frames=3, substeps=40)
    assert single.vertices.dtype == torch.float32
    single.vertices[-1, :, 1].sum().backward()
    exact = torch.tensor(1e4, dtype=F64, requires_grad=True)
    double = gs.simulate(beam(exact), frames=3, substeps=40)
    double.vertices[-1, :, 1].sum().backward()
    assert (single.vertices.double() - double.vertices).abs().max() < 1e-5
    assert mu.grad.item() == pytest.approx(exact.grad.item(), rel=1e-3)
    asked = gs.simulate(beam(1e4), frames=2, substeps=40, dtype=torch.float32)
    assert asked.vertices.dtype == torch.float32


def test_several_bodies_move_as_they_would_alone():
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
    together = gs.simulate(gs.Scene([cloth, soft, chain], ground), frames=4, substeps=100)
    for body in (cloth, soft, chain):
        alone = gs.simulate(gs.Scene([body], ground), frames=4, substeps=100)
        gap = (together[body.name].vertices - alone[body.name].vertices).abs().max()
        assert gap < 1e-12, body.name


def test_signals_are_linear_between_samples():
    """A force that ramps from 0 to 1 N over the rollout: v = t^2 / (2 m T)."""
    mass, end = 2.0, 0.5
    push = gs.Signal([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    body = gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)), mass=mass, force=push)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=6, fps=10.0, substeps=10, integrator=gs.Midpoint())
    expected = motion.time**2 / (2 * mass * end)
    assert torch.allclose(motion["mass"].velocity[:, 0], expected, atol=1e-12)


def test_divergence_names_time_body_and_stable_step():
    stiff = gs.Scene(
        [
            gs.Soft(
                "jelly",
                gs.meshes.tet_box(0.2, 2),
                100.0,
                material=gs.NeoHookean(1e7, 1e7),
                velocity=(0, 0, 1.0),
                force=(0, 5, 0),
            )
        ]
    )
    estimate = gs.stable_dt(stiff)
    with pytest.warns(gs.StabilityWarning, match="jelly"), pytest.raises(gs.Diverged) as caught:
        gs.simulate(stiff, frames=30, fps=30, substeps=4)
    error = caught.value
    assert error.body == "jelly"
    assert error.stable_dt == pytest.approx(estimate)
    assert error.time == pytest.approx(error.step / 120)
    assert 0 < error.step < 29 * 4
    assert "raise substeps" in str(error)
    needed = math.ceil(1 / (30 * estimate))
    gs.simulate(stiff, frames=30, fps=30, substeps=needed)  # the advice works


def test_divergence_finds_the_world_and_the_step():
    """Only the third of four worlds is too stiff; the step found is the first that is not finite."""
    moduli = torch.tensor([1e4, 1e4, 1e9, 1e4], dtype=F64)
    with pytest.warns(gs.StabilityWarning), pytest.raises(gs.Diverged) as caught:
        gs.simulate(beam(moduli, damping=0.0), frames=10, fps=30, substeps=100)
    assert caught.value.world == 2
    step = caught.value.step
    alone = beam(1e9, damping=0.0)
    with pytest.warns(gs.StabilityWarning):
        before = gs.simulate(alone, frames=2, fps=3000 / (step - 1), substeps=step - 1)
    assert torch.isfinite(before.vertices).all()
    with pytest.warns(gs.StabilityWarning), pytest.raises(gs.Diverged) as again:
        gs.simulate(alone, frames=2, fps=3000 / step, substeps=step)
    assert again.value.step == step


@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("kind", ["soft", "cloth", "springs"])
def test_stable_dt_is_stable_and_not_far_from_the_limit(kind, integrator):
    rng = np.random.default_rng(0)
    if kind == "soft":
        mesh = gs.meshes.tet_box((0.4, 0.2, 0.2), (4, 2, 2))
        body = gs.Soft("it", mesh, 100.0, material=gs.NeoHookean(1e5, 1e5), velocity=gs.each(rng.normal(size=(45, 3))))
    elif kind == "cloth":
        sheet = gs.meshes.grid((0.4, 0.4), (4, 4))
        jitter = gs.each(0.1 * rng.normal(size=(25, 3)))
        body = gs.Cloth("it", sheet, 0.3, material=gs.Membrane(300.0, 300.0), bending=gs.Bending(0.05), velocity=jitter)
    else:
        points, edges = gs.meshes.chain(1.0, 10)
        body = gs.Springs("it", points, edges, mass=0.1, stiffness=1e4, velocity=gs.each(rng.normal(size=(11, 3))))
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    dt = gs.stable_dt(scene, integrator)

    def energy_growth(step):
        motion = gs.simulate(scene, frames=11, fps=1 / (40 * step), substeps=40, integrator=integrator)
        speeds = motion.velocities.pow(2).sum((-1, -2))
        return float(speeds[1:].max() / speeds[:2].max())

    assert energy_growth(0.9 * dt) < 30.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.StabilityWarning)
        try:
            growth = energy_growth(3.0 * dt)
        except gs.Diverged:
            growth = math.inf
    assert growth > 30.0


def test_stable_dt_of_a_contact_is_that_of_its_oscillator():
    mass = gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)), mass=0.1)
    assert gs.stable_dt(gs.Scene([mass], gs.Ground(ke=1e5, kd=0.0, kf=0.0))) == pytest.approx(2e-3)
    assert gs.stable_dt(gs.Scene([mass], gs.Ground(ke=0.0, kd=0.0, kf=200.0))) == pytest.approx(1e-3)
    assert gs.stable_dt(gs.Scene([mass])) == math.inf


def test_long_rollout_in_bounded_memory():
    """30,000 steps of 1,000 tetrahedra with gradients: under 1 GB, and right."""
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


def test_threads_of_the_user_take_turns():
    """Different topologies from several Python threads at once: each gets the answer it gets alone."""
    sizes = [(2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 1)]

    def height(cells):
        mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
        end = gs.simulate(beam(mu, cells=cells), frames=3, substeps=40).vertices[-1, :, 1].sum()
        end.backward()
        return end.item(), mu.grad.item()

    alone = [height(cells) for cells in sizes]
    for _ in range(10):
        engine._engines.clear()  # some threads build while others record or run
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(height, sizes * 3)) == alone * 3


def test_histories_of_all_scenes_share_one_limit():
    for cells in ((2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1)):
        mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
        end = gs.simulate(beam(mu, cells=cells), frames=5, substeps=50, memory=1e6).vertices[-1].sum()
        assert sum(e.history_bytes for e in engine._engines.values()) <= 1e6 + 1e5  # a row each is left to the others
    end.backward()


def test_a_loss_that_is_not_finite_is_called_that():
    mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
    end = gs.simulate(beam(mu), frames=2, substeps=40).vertices[-1]
    with pytest.raises(gs.BrokenGradient, match="look at the loss"):
        (end * float("nan")).sum().backward()


def test_springs_whose_ends_meet_stay_finite():
    points = np.array([[-0.1, 0.0, 0.0], [0.1, 0.0, 0.0]])
    pair = gs.Springs("pair", points, [[0, 1]], stiffness=0.0, velocity=gs.each([[1.0, 0, 0], [-1.0, 0, 0]]))
    motion = gs.simulate(gs.Scene([pair], gravity=(0, 0, 0)), frames=3, fps=10.0, substeps=8)
    assert torch.allclose(motion.vertices[1, 0], motion.vertices[1, 1], atol=1e-15)
    assert torch.isfinite(motion.vertices).all()


def test_strong_air_is_part_of_the_stable_step():
    sheet = gs.meshes.grid(0.4, 4)
    light = gs.Scene([gs.Cloth("sheet", sheet, 0.05, drag=50.0, velocity=(0.0, 10.0, 0.0))])
    with pytest.warns(gs.StabilityWarning, match="membrane stiffness or air"), pytest.raises(gs.Diverged):
        gs.simulate(light, frames=2, fps=30, substeps=10)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"frames": 0}, OutOfRange, "frames = 0"),
        ({"frames": 2, "substeps": 0}, OutOfRange, "substeps = 0"),
        ({"frames": 2, "fps": -1.0}, OutOfRange, "fps = -1.0"),
        ({"frames": 2.5}, OutOfRange, "frames = 2.5"),
        ({"frames": 2, "integrator": "euler"}, gs.InvalidInput, "integrator = euler"),
    ],
)
def test_bad_options_are_named(options, error, words):
    with pytest.raises(error, match=words):
        gs.simulate(beam(1e4), **options)


def test_start_must_fit_the_scene():
    other = gs.simulate(beam(1e4, cells=(2, 2, 2)), frames=2, substeps=40).final
    with pytest.raises(WrongShape, match=r"start\.vertices"):
        gs.simulate(beam(1e4), frames=2, start=other)
