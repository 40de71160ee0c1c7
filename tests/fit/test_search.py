"""The search for many unknowns."""

from tests.fit.cloth import cloth_problem

from gradsim.fit import search as searches
from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.jacobians import Adjoint, Differences
from gradsim.fit.search import Search


def test_the_whole_jacobian_finishes_what_products_leave(monkeypatch):
    """Two products for each iteration hardly move the 27 velocities; the search then uses the whole Jacobian."""
    stages = []
    slow = GaussNewton(iterations=12, jacobian=Adjoint(inner_iterations=2))
    problem = cloth_problem("states")
    found = Search(problem, slow, 0, lambda stage, *_: stages.append(stage)).run(problem.parameters.initial())
    assert stages[-1].startswith("whole Jacobian")
    assert found.converged
    monkeypatch.setattr(searches, "has_whole_jacobian", lambda problem: False)
    left = Search(problem, slow, 0).run(problem.parameters.initial())
    assert not left.converged
    assert left.mean_square > 1.01 * found.mean_square
    dense, bounds = GaussNewton(jacobian=Differences()), problem.parameters.bounds()
    best = solve(problem.residual(), left.z[None], bounds, dense, prior=problem.prior(0))
    assert float((best.z[0] - found.z).abs().max()) < 1e-3
