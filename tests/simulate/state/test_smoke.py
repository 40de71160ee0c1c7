"""Smoke: walls, batches, continuation, derivatives, stability and errors. Analytic solutions are in tests/physics."""

import dataclasses
import math

import pytest
import torch

import gradsim as gs
from gradsim.check.physics.fluids import cell_centers, gaussian_density, random_velocity, simulate_smoke
from gradsim.scene.errors import BrokenGradient, Diverged, InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.smoke import Closed, Periodic, Smoke, SmokeMotion
from gradsim.simulate.state.smoke_rollout import _Advection, divergence, smoke_rollout
from gradsim.simulate.state.smoke_waves import waves_for

F64 = torch.float64
BOTH = pytest.mark.parametrize("boundary", [Closed(), Periodic()], ids=["closed", "periodic"])
SIZE = (16, 20)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Uses one thread, because fields this small gain nothing from more and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def lively(boundary, *, batch=(), seed=0, **more):
    """Returns smoke with a velocity field, viscosity and buoyancy."""
    values = {
        "velocity": random_velocity(SIZE, seed=seed, shortest=6.0, batch=batch),
        "viscosity": 1e-3,
        "buoyancy": 2.0,
    }
    return Smoke("smoke", SIZE, gaussian_density(SIZE, (0.4, 0.3), 0.15), **(values | more), boundary=boundary)


@BOTH
def test_gradients_of_a_few_steps_for_all_inputs(boundary):
    size = (5, 6)
    density = gaussian_density(size, (0.4, 0.3), 0.2).requires_grad_()
    velocity = random_velocity(size, seed=1, shortest=3.0, batch=(2,)).requires_grad_()
    viscosity = torch.tensor(1e-3, dtype=F64, requires_grad=True)
    buoyancy = torch.tensor([2.0, -1.0], dtype=F64, requires_grad=True)

    def states(*values):
        return smoke_rollout(*values, boundary=boundary, length=1.2, frames=2, dt=0.05, substeps=3)

    inputs = (density, velocity, viscosity, buoyancy)
    assert torch.autograd.gradcheck(states, inputs, eps=1e-7, rtol=1e-4, atol=1e-6)


@BOTH
def test_gradients_of_advection_from_outside_the_border(boundary):
    """Departure points several cells outside are mirrored at walls or wrapped around."""
    waves = waves_for(5, 6, boundary, F64, torch.device("cpu"))
    random = torch.Generator().manual_seed(3)
    modes, rho = (torch.randn(shape, generator=random, dtype=F64) for shape in ((2, 1, *waves.square.shape), (1, 5, 6)))
    coefficients = torch.cat([waves.coefficients(modes), waves.spline(rho)]).requires_grad_()
    v = (3.0 * torch.randn(2, 1, 5, 6, generator=random, dtype=F64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda c, v: _Advection.apply(c, v, waves), (coefficients, v), eps=1e-7, rtol=1e-4)


def test_walls_are_mirrors():
    """Values 1.8 cells beyond a wall equal those 1.8 cells before it, with the opposite normal velocity."""
    waves = waves_for(6, 8, Closed(), F64, torch.device("cpu"))
    random = torch.Generator().manual_seed(4)
    modes, rho = (torch.randn(shape, generator=random, dtype=F64) for shape in ((2, 1, 8, 6), (1, 6, 8)))
    coefficients = torch.cat([waves.coefficients(modes), waves.spline(rho)])
    x = torch.zeros(2, 1, 6, 8, dtype=F64)
    still = dataclasses.replace(waves, derivative_x=0 * waves.derivative_x, derivative_y=0 * waves.derivative_y)
    x[0] = 2.3
    beyond = _Advection.apply(coefficients, x, still)[:, 0, :, 0]  # at -2.3
    inside = _Advection.apply(coefficients, x - torch.tensor([2.6, 0.0], dtype=F64).view(2, 1, 1, 1), still)[:, 0, :, 1]
    assert torch.allclose(beyond * torch.tensor([-1.0, 1.0, 1.0], dtype=F64)[:, None], inside, atol=1e-12)


@BOTH
def test_divergence_and_projection_of_analytic_flows(boundary):
    """Projection removes a gradient field, whose divergence is known, and does not change a rotational flow."""
    length, size = 2.0, (24, 32)
    wave = math.pi / length * (1 if boundary == Closed() else 2)
    a, b = 2 * wave, 4 * wave / 3 * (1 if boundary == Closed() else 2)  # both fit a height of 1.5
    x, y = cell_centers(size, length)
    gradient = torch.stack([-a * (a * x).sin() * (b * y).cos(), -b * (a * x).cos() * (b * y).sin()], -1)
    turning = torch.stack([b * (a * x).sin() * (b * y).cos(), -a * (a * x).cos() * (b * y).sin()], -1)
    exact = -(a * a + b * b) * (a * x).cos() * (b * y).cos()
    assert (divergence(gradient, boundary, length) - exact).abs().max() < 1e-11
    assert divergence(turning, boundary, length).abs().max() < 1e-11
    smoke = Smoke("smoke", size, velocity=3.0 * gradient + turning, boundary=boundary, length=length)
    assert (simulate_smoke(smoke, frames=1).velocities[0] - turning).abs().max() < 1e-12


def test_x_is_right_y_is_up_and_images_have_the_top_row_first():
    density = torch.zeros(SIZE, dtype=F64)
    density[3, 5] = 1.0
    for velocity, place in (((1.0, 0.0), (3, 9)), ((0.0, 1.0), (7, 5)), ((-0.5, -0.25), (2, 3))):
        smoke = Smoke("smoke", SIZE, density, velocity, boundary=Periodic(), length=20.0)
        motion = simulate_smoke(smoke, frames=2, fps=0.25, substeps=1)
        assert divmod(int(motion.densities[-1].argmax()), SIZE[1]) == place
        image = motion.image
        assert image.shape == (2, *SIZE, 3)
        assert torch.equal(image[..., 0], image[..., 2])
        assert divmod(int(image[-1, ..., 1].argmax()), SIZE[1]) == (SIZE[0] - 1 - place[0], place[1])
    rising = simulate_smoke(lively(Closed(), velocity=(0.0, 0.0)), frames=2, fps=2, substeps=10).densities
    y = cell_centers(SIZE, 1.0)[1]
    heights = (rising * y).sum((-1, -2)) / rising.sum((-1, -2))
    assert heights[1] > heights[0] + 0.02


def test_cubics_are_advected_exactly():
    """By any fraction of a cell, away from discontinuities, because the interpolation is of fourth order."""
    size, length = (40, 40), 40.0
    x, y = (c - 20.0 for c in cell_centers(size, length))
    velocity = torch.tensor([0.3, 0.85], dtype=F64)

    def cubic(x, y):
        return 0.02 * x**3 - 0.01 * x**2 * y + 0.03 * x * y**2 + 0.1 * y - 2.0

    smoke = Smoke("smoke", size, cubic(x, y), velocity, boundary=Periodic(), length=length)
    after = simulate_smoke(smoke, frames=2, fps=1, substeps=1).densities[-1]
    inner = (slice(8, -8), slice(8, -8))
    assert (after - cubic(x - 0.3, y - 0.85))[inner].abs().max() < 1e-10


@BOTH
def test_batches_equal_single_worlds_and_broadcast(boundary):
    viscosities = torch.tensor([[1e-4], [1e-2]], dtype=F64, requires_grad=True)  # [2, 1]
    smoke = lively(boundary, batch=(3,), viscosity=viscosities)
    motion = simulate_smoke(smoke, frames=3, substeps=5)
    assert motion.densities.shape == (2, 3, 3, *SIZE)
    assert motion.velocities.shape == (2, 3, 3, *SIZE, 2)
    assert motion.image.shape == (2, 3, 3, *SIZE, 3)
    motion.velocities.pow(2).sum().backward()
    for row in range(2):
        one = viscosities[row, 0].detach().requires_grad_()
        total = 0.0
        for column in range(3):
            alone = simulate_smoke(
                lively(boundary, velocity=smoke.velocity[column], viscosity=one), frames=3, substeps=5
            )
            assert (alone.densities - motion.densities[row, column]).abs().max() < 1e-12
            assert (alone.velocities - motion.velocities[row, column]).abs().max() < 1e-12
            total = total + alone.velocities.pow(2).sum()
        total.backward()
        assert viscosities.grad[row, 0].item() == pytest.approx(one.grad.item(), rel=1e-9)


@BOTH
@pytest.mark.parametrize("substeps", [1, 2, 5])
def test_continuing_equals_one_rollout(boundary, substeps):
    smoke = lively(boundary)
    whole = simulate_smoke(smoke, frames=5, substeps=substeps)
    first = gs.simulate(gs.Scene([smoke]), frames=3, substeps=substeps)
    second = gs.simulate(gs.Scene([smoke]), frames=3, substeps=substeps, start=first.final)["smoke"]
    assert (second.densities - whole.densities[2:]).abs().max() < 1e-12
    assert (second.velocities - whole.velocities[2:]).abs().max() < 1e-12


def test_with_even_substeps_frames_do_not_change_the_steps():
    few = simulate_smoke(lively(Closed()), frames=2, fps=10, substeps=8)
    many = simulate_smoke(lively(Closed()), frames=5, fps=40, substeps=2)
    assert (few.densities[-1] - many.densities[-1]).abs().max() < 1e-12
    assert (few.velocities[-1] - many.velocities[-1]).abs().max() < 1e-12


def test_recomputed_gradients_equal_stored_ones():
    grads = []
    for memory in (None, 1.0):
        velocity = random_velocity(SIZE, seed=2, shortest=6.0).requires_grad_()
        viscosity = torch.tensor(1e-3, dtype=F64, requires_grad=True)
        smoke = lively(Closed(), velocity=velocity, viscosity=viscosity)
        motion = gs.simulate(gs.Scene([smoke]), frames=3, substeps=15, memory=memory)["smoke"]
        motion.densities[-1].pow(2).sum().backward()
        grads.append((velocity.grad, viscosity.grad))
    assert torch.allclose(grads[0][0], grads[1][0], rtol=1e-12, atol=1e-14)
    assert torch.allclose(grads[0][1], grads[1][1], rtol=1e-12)


@BOTH
def test_float32_agrees_with_float64(boundary):
    results = []
    for dtype in (torch.float32, F64):
        velocity = random_velocity(SIZE, seed=3, shortest=6.0).to(dtype).requires_grad_()
        density = gaussian_density(SIZE, (0.4, 0.3), 0.15).to(dtype)
        motion = simulate_smoke(Smoke("smoke", SIZE, density, velocity, 1e-3, 2.0, boundary), frames=3, substeps=20)
        assert motion.densities.dtype == motion.velocities.dtype == dtype
        motion.densities[-1].pow(2).sum().backward()
        results.append((motion.densities.detach().double(), velocity.grad.double()))
    assert (results[0][0] - results[1][0]).abs().max() < 1e-4
    assert (results[0][1] - results[1][1]).norm() < 1e-3 * results[1][1].norm()
    uniform = Smoke("smoke", SIZE, 0.5, (1.0, 0.0), boundary=boundary)
    asked = gs.simulate(gs.Scene([uniform]), frames=2, dtype=torch.float32)["smoke"]
    assert asked.densities.dtype == torch.float32


@BOTH
@pytest.mark.parametrize("substeps", [1, 2], ids=["project", "reflect"])
@pytest.mark.parametrize("cells", [0.5, 2.0, 20.0], ids=lambda c: f"{c} cells a step")
def test_rough_flows_stay_bounded(boundary, substeps, cells):
    """With exact spline interpolation the density would grow by 5 % per step here."""
    generator = torch.Generator().manual_seed(1)
    size = (32, 32)
    density = torch.rand(size, generator=generator, dtype=F64)
    velocity = torch.randn(*size, 2, generator=generator, dtype=F64)
    velocity *= cells / velocity.norm(dim=-1).max()
    smoke = Smoke("smoke", size, density, velocity, boundary=boundary, length=32.0)
    motion = simulate_smoke(smoke, frames=200 // substeps, fps=1 / substeps, substeps=substeps)
    energy = motion.velocities.pow(2).sum((-1, -2, -3))
    assert (energy[1:] <= energy[:-1] * (1 + 1e-9)).all()
    assert -0.3 < motion.densities.min() < motion.densities.max() < 1.3
    assert motion.densities[-1].sum().item() == pytest.approx(density.sum().item(), rel=0.05)


def test_divergence_error_has_the_smoke():
    smoke = Smoke("fog", SIZE, 1.0, 1e29 * random_velocity(SIZE, seed=1, shortest=3.0).float())
    with pytest.raises(Diverged, match="'fog'"):
        simulate_smoke(smoke, frames=3)
    velocity = random_velocity(SIZE, seed=1, shortest=3.0).requires_grad_()
    motion = simulate_smoke(lively(Closed(), velocity=velocity), frames=2)
    with pytest.raises(BrokenGradient, match="loss"):
        (motion.densities.sum() * float("nan")).backward()


def test_second_derivatives_raise():
    velocity = random_velocity(SIZE, seed=1, shortest=6.0).requires_grad_()
    loss = simulate_smoke(lively(Closed(), velocity=velocity), frames=2).densities.pow(2).sum()
    with pytest.raises(BrokenGradient, match="gradients of gradients"):
        torch.autograd.grad(loss, velocity, create_graph=True)


@pytest.mark.parametrize(
    ("error", "field", "change"),
    [
        (InvalidInput, "name", {"name": "two words"}),
        (OutOfRange, "smoke.size", {"size": (3, 20)}),
        (OutOfRange, "smoke.size", {"size": (8.5, 20)}),
        (WrongType, "smoke.size", {"size": 20}),
        (WrongShape, "smoke.density", {"density": torch.zeros(20, 16)}),
        (WrongShape, "smoke.density", {"density": torch.zeros(16)}),
        (NotFinite, "smoke.density", {"density": float("nan")}),
        (WrongShape, "smoke.velocity", {"velocity": torch.zeros(16, 20)}),
        (WrongShape, "smoke.velocity", {"velocity": (0.0, 1.0, 0.0)}),
        (WrongShape, "smoke.velocity", {"velocity": 1.0}),
        (WrongType, "smoke.velocity", {"velocity": torch.zeros(16, 20, 2, dtype=torch.int64)}),
        (OutOfRange, "smoke.viscosity", {"viscosity": -1e-3}),
        (WrongType, "smoke.buoyancy", {"buoyancy": "up"}),
        (WrongType, "smoke.boundary", {"boundary": "closed"}),
        (WrongType, "smoke.boundary", {"boundary": Closed}),
        (OutOfRange, "smoke.length", {"length": 0.0}),
        (WrongType, "smoke.length", {"length": "wide"}),
    ],
)
def test_invalid_input_raises_errors_with_its_name(error, field, change):
    with pytest.raises(error) as caught:
        Smoke(**({"name": "smoke", "size": SIZE} | change))
    assert caught.value.name == field


def test_invalid_arguments_of_rollouts_raise():
    smoke = lively(Closed(), batch=(3,), viscosity=torch.zeros(2, dtype=F64))
    with pytest.raises(WrongShape, match="broadcast"):
        simulate_smoke(smoke, frames=2)
    with pytest.raises(OutOfRange, match="substeps"):
        simulate_smoke(lively(Closed()), frames=2, substeps=0)
    with pytest.raises(OutOfRange, match="frames"):
        simulate_smoke(lively(Closed()), frames=0)
    with pytest.raises(OutOfRange, match="fps"):
        simulate_smoke(lively(Closed()), frames=2, fps=0.0)


def test_images_are_linear_in_the_density():
    densities = torch.linspace(-0.1, 1.1, 40, dtype=F64).view(1, 4, 10).requires_grad_()
    image = SmokeMotion(densities, torch.zeros(1, 4, 10, 2)).image
    image.sum().backward()
    assert torch.equal(densities.grad, torch.full_like(densities, 3.0))
