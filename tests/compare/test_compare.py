"""Losses: known values, gradients and invalid input."""

import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, WrongShape, WrongType

SHAPE = (3, 6, 8, 3)


def videos(*batch):
    generator = torch.Generator().manual_seed(0)
    return (torch.rand(*batch, *SHAPE, dtype=torch.float64, generator=generator) for _ in range(2))


def test_mse_of_one_world_is_a_scalar():
    a, b = videos()
    assert gs.mse(a, b).shape == ()
    assert gs.mse(a, b).item() == pytest.approx(torch.nn.functional.mse_loss(a, b).item(), rel=1e-14)


def test_mse_accepts_videos():
    a, b = videos()
    assert gs.mse(gs.Video(a), b) == gs.mse(a, gs.Video(b)) == gs.mse(a, b)


def test_mse_of_a_batch_is_one_number_per_world():
    a, _ = videos(2, 5)
    b, _ = videos()
    losses = gs.mse(a, b)
    assert losses.shape == (2, 5)
    assert losses[1, 3].item() == pytest.approx(gs.mse(a[1, 3], b).item(), rel=1e-14)


@pytest.mark.parametrize("shape", [(6, 8), (3, 6, 8), (3, 1, 1), (2, 3, 6, 8)])
def test_mask_excludes_pixels(shape):
    a, b = videos(2)
    keep = torch.arange(torch.tensor(shape).prod()).reshape(shape) % 3 > 0
    included = keep.expand(2, 3, 6, 8)
    expected = torch.stack([((a - b) ** 2)[w][included[w]].mean() for w in range(2)])
    torch.testing.assert_close(gs.mse(a, b, mask=keep), expected, rtol=1e-13, atol=0)
    other = torch.where(included[..., None], a, 7.0)
    torch.testing.assert_close(gs.mse(other, b, mask=keep), expected, rtol=1e-13, atol=0)


def test_gradients_agree_with_finite_differences():
    a, b = videos()
    a = a[:, :3, :4].clone().requires_grad_()
    b = b[:, :3, :4]
    mask = torch.linspace(0, 1, 12, dtype=torch.float64).reshape(3, 4)
    assert torch.autograd.gradcheck(lambda x: gs.mse(x, b, mask=mask), a)
    assert torch.autograd.gradcheck(lambda x: gs.cumulative(x, b), a)


def column_image(column, *, height=4, width=16):
    image = torch.zeros(1, height, width, 1, dtype=torch.float64)
    image[:, :, column] = 1
    return image


@pytest.mark.parametrize("gap", [0, 1, 5])
def test_cumulative_grows_with_the_distance_of_two_columns(gap):
    """Two columns one pixel wide: the area on the left differs by 1/W for `gap` of W lines; the rows are equal."""
    assert gs.cumulative(column_image(3), column_image(3 + gap)).item() == pytest.approx(gap / 16**3, abs=1e-18)


def test_cumulative_is_symmetric_in_rows_and_columns():
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.rand(2, 5, 9, 1, dtype=torch.float64, generator=generator) for _ in range(2))
    transposed = gs.cumulative(a.transpose(1, 2), b.transpose(1, 2)).item()
    assert gs.cumulative(a, b).item() == pytest.approx(transposed, rel=1e-13)


def disc(x):
    """A soft disc at row 16 of an image of 32 x 64 pixels."""
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(64.0), indexing="ij")
    square = ((columns - x) ** 2 + (rows - 16) ** 2).double()
    return ((16 - square) / 8).clamp(0, 1)[None, ..., None]


def test_cumulative_has_a_gradient_without_overlap():
    goal = disc(torch.tensor(50.0))
    for start in (10.0, 30.0):
        gradients = {}
        for loss in (gs.mse, gs.cumulative):
            x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
            loss(disc(x), goal).backward()
            gradients[loss] = x.grad.item()
        assert abs(gradients[gs.mse]) < 1e-12
        assert gradients[gs.cumulative] < -1e-6


def test_cumulative_of_a_batch_is_one_number_per_world():
    a, b = videos(4)
    assert gs.cumulative(a, b[0]).shape == (4,)


CASES = {
    "another size": (lambda a, b: gs.mse(a, b[:, :5]), WrongShape, "height 6 and 5"),
    "fewer frames": (lambda a, b: gs.cumulative(a, b[:2]), WrongShape, "frames 3 and 2"),
    "fourth channel": (lambda a, b: gs.mse(torch.cat([a, a[..., :1]], -1), b), WrongShape, "channels 4 and 3"),
    "an image": (lambda a, b: gs.mse(a[0], b[0]), WrongShape, r"image\[None\]"),
    "batches": (lambda a, b: gs.mse(a.expand(2, *SHAPE), b.expand(3, *SHAPE)), WrongShape, "that broadcast"),
    "bytes": (lambda a, b: gs.mse(a, (b * 255).byte()), WrongType, "observed = torch.uint8"),
    "mask with channels": (lambda a, b: gs.mse(a, b, mask=torch.ones(SHAPE)), WrongShape, "without channels"),
    "mask of another size": (lambda a, b: gs.mse(a, b, mask=torch.ones(3, 6, 7)), WrongShape, "mask"),
    "empty mask": (lambda a, b: gs.mse(a, b, mask=torch.zeros(6, 8)), InvalidInput, "at least one > 0"),
    "negative mask": (lambda a, b: gs.mse(a, b, mask=torch.linspace(-1, 2, 8)), InvalidInput, "smallest weight -1"),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input(case):
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call(*videos())
