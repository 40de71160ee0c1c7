"""Accuracy of estimates from exact frames, and medians over time."""

import torch

import gradsim.experiments.contact as contact
from gradsim.fit.observations.pixels import median_image


def test_parameters_that_hardly_change_the_images_have_all_their_digits():
    """The friction damping of the thrown cone: the search alone ends with an error of 2e-9."""
    row = contact.case(3, 0, eight_bit=False).run(lambda *_: None)
    assert row["kf"] < 2e-10
    assert row["worst"] < 2e-10


def test_median_images():
    generator = torch.Generator().manual_seed(0)
    for frames in (1, 2, 7, 10):
        video = torch.rand((frames, 5, 4, 3), generator=generator, dtype=torch.float64)
        assert torch.equal(median_image(video), video.median(0).values)
