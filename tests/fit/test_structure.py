"""Sparsity of the Jacobian of several trials."""

import pytest
import torch

from gradsim.fit.residuals import forward_jacobian, jacobian
from gradsim.fit.structure import Structure
from gradsim.scene.errors import Diverged

# Two trials with three residuals each; coordinates: shared, own of trial 0, own of trial 1, second own of trial 0.
STRUCTURE = Structure([0, 1, 1, 2], [-1, 0, 1, 0], torch.tensor([0, 0, 0, 1, 1, 1]))


def residual(z: torch.Tensor) -> torch.Tensor:
    """Residuals [B, 6] at coordinates [B, 4]."""
    shared, first, second, third = z.unbind(-1)
    trials = [
        torch.stack([shared * own, own.sin() + extra, shared + own**2], -1)
        for own, extra in ((first, third), (second, 0.0))
    ]
    return torch.cat(trials, -1)


def test_one_difference_changes_the_same_unknown_in_all_trials():
    steps = STRUCTURE.compress(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert steps.tolist() == [[1, 0, 0, 0], [0, 2, 3, 0], [0, 0, 0, 4]]


def test_the_structured_jacobian_equals_the_full_one():
    z = torch.tensor([[0.7, -0.4, 1.3, 0.2]], dtype=torch.float64)
    calls = []

    def counted(z):
        calls.append(len(z))
        return residual(z)

    full = jacobian(residual, z, 64)
    structured = jacobian(counted, z, 64, structure=STRUCTURE)
    assert torch.allclose(structured, full, atol=1e-9)
    assert sum(calls) == 6  # two sides of three groups, not of four coordinates
    exact = torch.autograd.functional.jacobian(lambda x: residual(x[None])[0], z[0]).T
    assert torch.allclose(structured[0], exact, atol=1e-9)


def test_forward_differences_use_the_structure_and_point_inwards():
    z = torch.tensor([[0.7, -0.4, 1.3, 0.2], [0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    low = torch.full((4,), -9.0, dtype=torch.float64)
    high = torch.tensor([9.0, 9.0, 1.3, 9.0], dtype=torch.float64)  # one is at its bound
    calls = []

    def counted(z):
        assert bool((z <= high).all())
        calls.append(len(z))
        return residual(z)

    steps = torch.full_like(z, 1e-7)
    steps[:, 1] *= 3  # the groups use the smaller step
    J, known = forward_jacobian(counted, z, residual(z), steps, 64, (low, high), STRUCTURE)
    for k, point in enumerate(z):
        exact = torch.autograd.functional.jacobian(lambda x: residual(x[None])[0], point).T
        assert torch.allclose(J[k], exact, atol=1e-5)
    assert bool(known.all())
    assert sum(calls) == 2 * 3


def test_a_group_that_diverges_is_taken_apart():
    """Trial 1 diverges for larger values of its own coordinate; the difference is taken to the other side."""
    z = torch.tensor([[0.7, -0.4, 1.3, 0.2]], dtype=torch.float64)

    def diverging(z):
        if bool((z[:, 2] > 1.3).any()):
            raise Diverged("cube", 1, 0.1, 0, 0.1, 0.01)
        return residual(z)

    J, known = forward_jacobian(diverging, z, residual(z), torch.full_like(z, 1e-7), 64, None, STRUCTURE)
    exact = torch.autograd.functional.jacobian(lambda x: residual(x[None])[0], z[0]).T
    assert torch.allclose(J[0], exact, atol=1e-5)
    assert bool(known.all())


def test_rows_with_known_derivatives_follow():
    constant = torch.arange(8.0).view(4, 2)
    expanded = STRUCTURE.with_rows(constant).expand(torch.ones(3, 8))
    assert torch.equal(expanded[:, 6:], constant)
    assert expanded[1, :6].tolist() == [1, 1, 1, 0, 0, 0]
    assert expanded[2, :6].tolist() == [0, 0, 0, 1, 1, 1]
    assert expanded[0, :6].tolist() == [1] * 6


@pytest.mark.parametrize("structured", [False, True])
def test_central_differences_stay_within_bounds(structured):
    def residual(z):
        assert bool((z >= 0.0).all() and (z <= 2.0).all())
        return torch.cat([z.square() + z, z[:, :1] * z[:, 1:2]], 1)

    z = torch.tensor([[0.0, 2.0, 1.0]], dtype=torch.float64)
    rows = torch.zeros(4, dtype=torch.long)
    structure = Structure([0, 1, 2], [-1, -1, -1], rows) if structured else None
    J = jacobian(residual, z, 8, structure=structure, bounds=(torch.zeros(3), 2 * torch.ones(3)))[0]
    exact = torch.autograd.functional.jacobian(lambda x: residual(x[None])[0], z[0]).T
    torch.testing.assert_close(J, exact, rtol=1e-4, atol=1e-4)
