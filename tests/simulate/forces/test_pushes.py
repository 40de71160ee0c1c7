"""Pushes transfer their exact momentum, and displace a body exactly, whatever the time step."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradcheck import adjoint_gradients, central_differences

F64 = torch.float64
IMPULSE, MASS = np.array([0.4, 0.2, -0.3]), 2.0  # [N s], [kg]
END = 0.1  # of the rollout [s]
INTERVALS = [(0.0, 0.0), (0.0123, 0.0), (0.01, 0.02), (0.0123, 0.0171), (0.0123, 0.0004), (0.0, 0.05)]
SUBSTEPS = [1, 3, 8, 64]


def push(start, duration, impulse=IMPULSE, **options):
    if duration == 0.0:
        return gs.Push(impulse=impulse, start=start, **options)
    return gs.Push(force=impulse / duration, start=start, end=start + duration, **options)


def pushed(start, duration, substeps, integrator, forces=(), others=(), dtype=F64, **options):
    """Returns the motion of a body without gravity, with one push."""
    body = gs.Rigid("body", gs.meshes.box(0.3), mass=MASS, pushes=[push(start, duration)], **options)
    scene = gs.Scene([body, *others], gravity=(0.0, 0.0, 0.0), forces=forces)
    return gs.simulate(scene, frames=4, fps=30, substeps=substeps, integrator=integrator, dtype=dtype)["body"]


@pytest.mark.parametrize("substeps", SUBSTEPS)
@pytest.mark.parametrize(("start", "duration"), INTERVALS)
@pytest.mark.parametrize(
    "integrator", [gs.SymplecticEuler(), gs.Midpoint(), gs.RungeKutta4(), gs.Verlet()], ids=lambda i: type(i).__name__
)
def test_momentum_is_force_times_duration(integrator, start, duration, substeps):
    motion = pushed(start, duration, substeps, integrator)
    assert np.abs(MASS * motion.velocity[-1].numpy() - IMPULSE).max() < 1e-12
    if integrator.order > 1:
        displacement = IMPULSE / MASS * (END - start - duration / 2)
        assert np.abs(motion.position[-1].numpy() - displacement).max() < 1e-12


def test_a_batch_and_a_coupled_body_are_pushed_alike():
    """Lanes of worlds, and bodies in a world with nodes, have code of their own."""
    alone = pushed(0.0123, 0.0171, 8, gs.Midpoint())
    batch = pushed(0.0123, 0.0171, 8, gs.Midpoint(), velocity=torch.zeros(3, 3, dtype=F64))
    assert (batch.position - alone.position).abs().max() < 1e-15
    node = gs.Springs("node", [(2.0, 0.0, 0.0), (3.0, 0.0, 0.0)], [(0, 1)], stiffness=1.0)
    rope = gs.Tether("rope", body="node", nodes=0, rigid="body", stiffness=0.0)
    coupled = pushed(0.0123, 0.0171, 8, gs.Midpoint(), forces=[rope], others=[node])
    assert (coupled.position - alone.position).abs().max() < 1e-15


def test_single_precision_has_no_drift_of_momentum():
    motion = pushed(0.0, 0.05, 1000, gs.Midpoint(), dtype=torch.float32)
    assert np.abs(MASS * motion.velocity[-1].numpy() - IMPULSE).max() < 2e-5


def test_a_push_at_a_point_turns_a_body_at_rest_alike_for_all_steps():
    """The point rotates by half a step at most, so that the motion converges with the square of the step."""

    def end(substeps):
        body = gs.Rigid(
            "body", gs.meshes.box((0.3, 0.2, 0.1)), mass=MASS, pushes=[push(0.0123, 0.0, point=(0.1, 0, 0))]
        )
        return gs.simulate(gs.Scene([body]), frames=4, fps=30, substeps=substeps)["body"].vertices[-1]

    exact = end(2000)
    errors = [float((end(substeps) - exact).abs().max()) for substeps in (4, 8, 16, 32)]
    assert errors[1] < 1e-3
    assert errors[-1] < errors[0] / 20


@pytest.mark.parametrize("start", [0.0, 0.0123])
def test_gradient_with_respect_to_the_push(start):
    def loss(values):
        body = gs.Rigid(
            "body",
            gs.meshes.box((0.3, 0.2, 0.1)),
            mass=MASS,
            angular_velocity=(1.0, 2.0, -3.0),
            pushes=[
                gs.Push(impulse=values["impulse"], point=values["point"], start=start),
                gs.Push(force=values["force"], point=values["point"], start=start, end=start + 0.0171),
            ],
        )
        motion = gs.simulate(gs.Scene([body]), frames=4, fps=30, substeps=8)["body"]
        weights = torch.linspace(-1.0, 2.0, 24, dtype=F64).reshape(8, 3)
        return (motion.vertices[..., -1, :, :] * weights).sum((-2, -1))

    values = {"impulse": IMPULSE, "force": 30 * IMPULSE[::-1].copy(), "point": np.array([0.1, 0.05, -0.02])}
    values = {name: torch.tensor(value, dtype=F64) for name, value in values.items()}
    for name, gradient in adjoint_gradients(loss, values).items():
        difference = central_differences(loss, values, name, torch.eye(3, dtype=F64), 1e-5)
        assert torch.allclose(gradient, difference, rtol=1e-8, atol=1e-9 * float(gradient.abs().max())), name
