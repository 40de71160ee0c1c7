"""Model errors that are smooth in time: found by REML where they exist, and only there."""

import math
from dataclasses import replace

import pytest
import torch

from gradsim.fit.discrepancy import DRIFT_LENGTH, discrepancy_covariance, drift_covariance, matern_kernel
from gradsim.fit.linearized import Block, Linearization

COUNT = 40  # frames
F64 = torch.float64


def white(seed: int, width: int = 3) -> torch.Tensor:
    return torch.randn(COUNT, width, generator=torch.Generator().manual_seed(seed), dtype=F64)


def smooth(size: float, width: int = 3) -> torch.Tensor:
    """A slow error [T, N] in units of the noise, which no line in time describes."""
    t = torch.linspace(0.0, 1.0, COUNT, dtype=F64)[:, None]
    return size * torch.sin(2 * math.pi * (1.5 * t + torch.arange(width, dtype=F64) / width))


def tracks(residual: torch.Tensor) -> Linearization:
    """Tracks with noise 1 at the least-squares estimate of a position and a velocity common to all entries."""
    count, width = residual.shape
    t = torch.linspace(-1.0, 1.0, count, dtype=F64)
    J = torch.stack([torch.ones(count, width, dtype=F64), t[:, None].expand(count, width)])  # [P, T, N]
    amounts = torch.linalg.lstsq(J.flatten(1).T, residual.flatten()[:, None]).solution[:, 0]
    left = residual - torch.einsum("p,ptn->tn", amounts, J)
    columns = torch.cat([left[None], J])  # [1 + P, T, N]
    block = Block(
        key=(0, 0),
        coordinates=[0, 1],
        nuisances=0,
        shifts=0,
        gram=torch.einsum("qtn,rtn->tqr", columns, columns),
        counts=torch.full((count,), float(width), dtype=F64),
        difference=left,
        weights=None,
        sigma=torch.ones((), dtype=F64),
        entries=J,
    )
    return Linearization(torch.zeros(2, dtype=F64), [block])


def found(residual: torch.Tensor):
    """Returns the variances that a discrepancy adds, relative to those of the noise, and the discrepancy."""
    lin = tracks(residual)
    inverse = torch.linalg.inv(lin.information())
    added, discrepancy = discrepancy_covariance(lin, inverse)
    return torch.diagonal(added) / torch.diagonal(inverse), discrepancy


@pytest.mark.parametrize("seed", range(8))
def test_white_noise_has_no_discrepancy(seed):
    added, discrepancy = found(white(seed))
    assert discrepancy is None
    assert float(added.abs().max()) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_model_error_widens_the_intervals(seed):
    added, discrepancy = found(white(seed) + smooth(3.0))
    assert discrepancy is not None
    assert discrepancy.length >= 4.0
    assert discrepancy.variance >= 1.0
    assert float(added.min()) > 1.0


def test_larger_errors_widen_more():
    small, large = (found(white(0) + smooth(size))[0] for size in (2.0, 20.0))
    assert bool((large > 10 * small).all())


def test_an_error_that_the_unknowns_absorb_leaves_no_trace():
    """A common drift changes the estimate, not the residual: no residual shows it."""
    t = torch.linspace(-1.0, 1.0, COUNT, dtype=F64)[:, None]
    assert found(white(0) + 5.0 * t)[1] is None


def test_the_added_variance_is_that_of_processes_of_this_kind():
    """Estimates from residuals that are drawn from the process found scatter as the covariance says."""
    residual = white(0) + smooth(3.0)
    added, discrepancy = found(residual)
    lin = tracks(residual)
    J = lin.blocks[0].entries
    inverse = torch.linalg.inv(lin.information())
    distance = math.sqrt(3.0) * (torch.arange(COUNT)[:, None] - torch.arange(COUNT)).abs().to(F64) / discrepancy.length
    kernel = discrepancy.variance * (1 + distance) * torch.exp(-distance)
    factor = torch.linalg.cholesky(kernel + 1e-9 * torch.eye(COUNT, dtype=F64))
    draws = torch.randn(4000, COUNT, 3, generator=torch.Generator().manual_seed(1), dtype=F64)
    errors = torch.einsum("ts,ksn->ktn", factor, draws)
    scatter = (torch.einsum("ptn,ktn->kp", J, errors) @ inverse).var(0) / torch.diagonal(inverse)
    torch.testing.assert_close(scatter, added, rtol=0.1, atol=0.0)


def test_few_frames_have_no_discrepancy():
    lin = tracks(white(0)[:3] + smooth(20.0)[:3])
    assert discrepancy_covariance(lin, torch.eye(2, dtype=F64))[1] is None


def test_lasting_errors_of_tracks_have_the_covariance_of_simulated_ones():
    """They add what least squares makes of errors with their correlation, in units of the noise."""
    lin = tracks(white(0))
    lasting = replace(lin, blocks=[replace(lin.blocks[0], drift=0.5)])
    inverse = torch.linalg.inv(lin.information())
    factor = torch.linalg.cholesky(0.25 * matern_kernel(COUNT, DRIFT_LENGTH))
    errors = factor @ torch.randn(4000, COUNT, 3, generator=torch.Generator().manual_seed(1), dtype=F64)
    amounts = torch.einsum("ptn,ktn->kp", lin.blocks[0].entries, errors) @ inverse
    added = drift_covariance(lasting, inverse)
    assert torch.allclose(added, torch.cov(amounts.T), rtol=0.1, atol=0.05 * float(added.max()))
    assert drift_covariance(lin, inverse) is None


def test_lasting_errors_do_not_depend_on_weights():
    """Half the noise is four times the weight: an error of some pixels is then twice as large relative to it."""
    lin = tracks(white(0))
    weighted = replace(lin.blocks[0], drift=0.5, weights=torch.full((COUNT, 3), 4.0, dtype=F64))
    precise = replace(lin.blocks[0], drift=0.5, sigma=torch.tensor(0.5, dtype=F64))
    inverse = torch.linalg.inv(lin.information())
    one, two = (drift_covariance(replace(lin, blocks=[own]), inverse) for own in (weighted, precise))
    assert torch.allclose(one, two)
    assert torch.allclose(one, 4 * drift_covariance(replace(lin, blocks=[replace(lin.blocks[0], drift=0.5)]), inverse))
