"""Moments of a silhouette: selection and weights."""

import pytest
import torch

import gradsim as gs


def _square(left: int, top: int, size: int = 4) -> torch.Tensor:
    image = torch.zeros(1, 20, 40, 1, dtype=torch.float64)
    image[:, top : top + size, left : left + size] = 1.0
    return image


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (gs.Moments(size=0.0, height=0.0), [0.5]),
        (gs.Moments(size=0.0), [0.5, -0.15]),
        (gs.Moments(size=0.0, height=2.0), [0.5, -0.3]),
        (gs.Moments(), [0.5, -0.15, 0.0]),
    ],
)
def test_centroids_are_compared_in_units_of_the_height(distance, expected):
    residuals = distance.residuals(_square(14, 5), _square(4, 8))
    assert residuals.tolist() == pytest.approx(expected, abs=1e-12)
