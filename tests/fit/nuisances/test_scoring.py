"""chi^2 explained by nuisances, against direct linear algebra on full matrices."""

import pytest
import torch

from gradsim.fit.nuisances import Nuisance, gram, gram_scores, group_scores, scores, scoring
from gradsim.scene.errors import OutOfRange, WrongShape

D = torch.float64


def problem(count=4000, unknowns=3, directions=6, seed=1):
    generator = torch.Generator().manual_seed(seed)
    J = torch.randn(unknowns, count, generator=generator, dtype=D)
    K = torch.randn(directions, count, generator=generator, dtype=D) * 0.05 + 0.3 * J[:1]
    noise = 0.1 * torch.randn(count, generator=generator, dtype=D)
    return J, K, noise


def direct(r, J, K, sigma):
    """The prototype's formulas, by QR."""
    Q = torch.linalg.qr(J.T)[0]
    A, left = K - (K @ Q) @ Q.T, r - Q @ (Q.T @ r)
    variance = max(sigma**2, float(left.square().mean()))
    squares, inner = A.square().sum(1), A @ left
    a = -(inner / variance) / (squares / variance + 1)
    return -(2 * a * inner + a * a * squares) / variance, a


def test_scores_are_those_of_the_projected_directions():
    J, K, r = problem()
    r = r + 2.0 * K[4]
    found = scores(r, J, K, 0.1)
    explained, amounts = direct(r, J, K, 0.1)
    torch.testing.assert_close(found.explained, explained, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.amounts, amounts, rtol=1e-9, atol=1e-9)


def test_the_cause_has_the_largest_score_and_its_amount():
    J, K, r = problem()
    found = scores(r - 2.0 * K[4], J, K, 0.1)  # the observation has 2 standard deviations of direction 4
    assert int(found.explained.argmax()) == 4
    assert abs(float(found.amounts[4]) - 2.0) < 0.1


def test_a_right_model_leaves_no_large_score():
    J, K, r = problem()
    assert float(scores(r, J, K, 0.1).explained.max()) < 12.0


def test_a_direction_of_the_unknowns_explains_nothing():
    J, K, r = problem()
    K = torch.cat([K, (J[0] - 2.0 * J[2])[None]])
    found = scores(r + 5.0 * K[-1], J, K, 0.1)
    assert float(found.explained[-1]) == 0.0
    assert float(found.amounts[-1]) == 0.0


def test_pieces_and_trials_add_up(monkeypatch):
    J, K, r = problem()
    whole = gram(r, J, K)
    monkeypatch.setattr(scoring, "PIECE", 999)
    pieces = gram(r, J, K)
    trials = gram(r[:1500], J[:, :1500], K[:, :1500]) + gram(r[1500:], J[:, 1500:], K[:, 1500:])
    for other in (pieces, trials):
        torch.testing.assert_close(other.products, whole.products, rtol=1e-12, atol=1e-12)
        assert other.count == whole.count == len(r)


def test_missing_entries_are_not_counted():
    J, K, r = problem()
    for tensor in (J, K, r):
        tensor[..., ::2] = 0.0
    assert gram(r, J, K).count == len(r) // 2


def test_float32_directions_are_summed_in_float64():
    J, K, r = problem(count=100_000)
    exact, rounded = scores(r, J, K, 0.1), scores(r, J.float(), K.float(), 0.1)
    assert rounded.explained.dtype == D
    torch.testing.assert_close(rounded.explained, exact.explained, rtol=1e-4, atol=1e-4)


def test_amounts_stay_above_their_lowest():
    J, K, r = problem()
    low = torch.full((6,), -torch.inf, dtype=D)
    low[4] = 0.0
    found = scores(r + 2.0 * K[4], J, K, 0.1, low=low)
    assert float(found.amounts[4]) == 0.0
    assert float(found.explained[4]) == 0.0


def test_a_group_explains_what_its_members_explain_together():
    J, K, r = problem()
    r = r - 1.5 * K[0] - 1.5 * K[1]
    nuisances = [Nuisance(f"n{k}", group, "1", 1.0, str, time="fps") for k, group in enumerate("aabbcc")]
    products = gram(r, J, K)
    found = group_scores(products, nuisances, 0.1)
    assert next(iter(found)) == "a"
    alone = gram_scores(products, 0.1).explained
    assert found["a"].explained > float(alone[:2].max())
    Q = torch.linalg.qr(J.T)[0]
    A, left = (K - (K @ Q) @ Q.T)[:2], r - Q @ (Q.T @ r)
    variance = float(left.square().mean())
    a = -torch.linalg.solve(A @ A.T / variance + torch.eye(2, dtype=D), A @ left / variance)
    after = left + a @ A
    assert found["a"].explained == pytest.approx(float((left @ left - after @ after) / variance), rel=1e-8)
    assert list(found["a"].amounts.values()) == pytest.approx(a.tolist(), rel=1e-8)


def test_wrong_input_is_refused():
    J, K, r = problem()
    with pytest.raises(WrongShape, match="as many columns"):
        scores(r[1:], J, K, 0.1)
    with pytest.raises(OutOfRange, match="sigma"):
        scores(r, J, K, 0.0)
    with pytest.raises(WrongShape, match="same unknowns"):
        gram(r, J, K) + gram(r, J[:1], K)
