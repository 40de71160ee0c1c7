"""The gradient check: adjoint gradients against central differences, one parameter at a time, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradsim.check.result import CheckResult

TOLERANCE = 1e-6
DIRECTIONS = 3
STEPS = (1e-4, 1e-5, 1e-6)  # relative; truncation or rounding limits each difference, so the best of several counts

Values = dict[str, torch.Tensor]  # parameters by name, float64
Objective = Callable[[Values], torch.Tensor]  # parameters, with leading batch dimensions -> a loss for each world
Differences = Callable[[Objective, Values, str, torch.Tensor, float], torch.Tensor]


def adjoint_gradients(loss: Objective, values: Values) -> Values:
    """Returns the gradient of a loss in every parameter, by the backward pass."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    loss(leaves).backward()
    missing = [name for name, leaf in leaves.items() if leaf.grad is None]
    if missing:
        raise AssertionError(f"the loss has no gradient in {', '.join(missing)}")
    return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def central_differences(
    loss: Objective, values: Values, name: str, directions: torch.Tensor, step: float
) -> torch.Tensor:
    """Returns central differences along directions [D, ...] of one parameter, from one batched evaluation, [D]."""
    count = len(directions)
    moved = torch.cat([values[name] + step * directions, values[name] - step * directions])
    batch = {key: value.expand(2 * count, *value.shape) for key, value in values.items()}
    with torch.no_grad():
        losses = loss({**batch, name: moved})
    return (losses[:count] - losses[count:]) / (2 * step)


def sequential_differences(
    loss: Objective, values: Values, name: str, directions: torch.Tensor, step: float
) -> torch.Tensor:
    """Returns the same differences from one evaluation a point, for losses that take no batch, [D]."""
    with torch.no_grad():
        losses = [
            [loss({**values, name: values[name] + sign * step * direction}) for sign in (1, -1)]
            for direction in directions
        ]
    return torch.stack([(ahead - behind) / (2 * step) for ahead, behind in losses])


def random_directions(value: torch.Tensor, count: int = DIRECTIONS) -> torch.Tensor:
    """Returns random directions [count, ...] of the parameter's magnitude."""
    generator = torch.Generator().manual_seed(1)
    scale = value.abs() + 0.1 * value.abs().mean() + (1e-2 if not value.any() else 0.0)
    return torch.randn(count, *value.shape, generator=generator, dtype=value.dtype) * scale


def check_gradient(
    loss: Objective,
    values: Values,
    name: str,
    gradient: torch.Tensor,
    topic: str,
    differences: Differences = central_differences,
) -> CheckResult:
    """Compares one parameter's gradient with differences.

    The error is the largest one over the directions, relative to the largest derivative, at the best of `STEPS`.

    Args:
        loss: The loss.
        values: All parameters.
        name: The parameter to check.
        gradient: Its gradient.
        topic: Of the result.
        differences: `central_differences` or `sequential_differences`.
    """
    directions = random_directions(values[name])
    adjoint = (directions * gradient).reshape(len(directions), -1).sum(1)
    scale = adjoint.abs().max()
    best: tuple[float, float] | None = None
    for step in STEPS:
        difference = differences(loss, values, name, directions, step)
        error = float((difference - adjoint).abs().max() / scale) if scale > 0 else float("nan")
        if best is None or error < best[0]:
            best = (error, float(difference[0]))
    assert best is not None
    return CheckResult(topic, name, best[1], float(adjoint[0]), best[0], TOLERANCE)


def check_all_gradients(
    loss: Objective, values: Values, topic: str, differences: Differences = central_differences
) -> list[CheckResult]:
    """Compares the gradient of every parameter with differences."""
    found = adjoint_gradients(loss, values)
    return [check_gradient(loss, values, name, found[name], topic, differences) for name in values]
