"""Quantities as tensors over all worlds of a batch."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.batcher import Batcher

CPU = torch.device("cpu")


def batcher(*batch):
    return Batcher(batch, torch.float64, CPU)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def test_a_value_that_worlds_share_has_one_row():
    worlds = batcher(2, 3)
    assert worlds.world_count == 6
    assert torch.equal(worlds.per_world(np.array([1.0, 2.0, 3.0]), (3,)), tensor([[1.0, 2.0, 3.0]]))
    assert torch.equal(worlds.per_world(np.full((1, 1), 4.0)), tensor([4.0]))


def test_batch_dimensions_broadcast_and_are_flattened():
    values = tensor([[1.0], [2.0]])
    assert torch.equal(batcher(2, 3).per_world(values), tensor([1.0, 1, 1, 2, 2, 2]))
    assert torch.equal(batcher(2, 3).per_world(values.numpy()), tensor([1.0, 1, 1, 2, 2, 2]))
    assert batcher(2).per_world(torch.zeros(2, 3, 3), (3, 3)).shape == (2, 3, 3)


@pytest.mark.parametrize("kind", [np.asarray, tensor], ids=["numbers", "tensor"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 1)], ids=str)
def test_values_of_elements(kind, batch):
    worlds, count = batcher(*batch), 4
    one = worlds.per_element(kind([1.0, 2.0, 3.0]), count, (3,))
    assert one.shape == (worlds.world_count, count, 3)
    assert torch.equal(one[-1, -1], tensor([1.0, 2.0, 3.0]))
    numbers = worlds.per_element(gs.per_element(kind(np.arange(4.0))), count)
    assert torch.equal(numbers, torch.arange(4.0).double().expand(worlds.world_count, 4))
    signal = worlds.per_element(gs.Signal(kind(np.arange(5.0))), count)
    assert torch.equal(signal, torch.arange(5.0).double()[:, None].expand(worlds.world_count, 5, 4))
    signals = worlds.per_element(gs.Signal(gs.per_element(kind(np.ones((5, 4, 3))))), count, (3,))
    assert signals.shape == (worlds.world_count, 5, 4, 3)


def test_plain_numbers_are_converted_once_and_followed():
    values = np.array([1.0, 2.0, 3.0])
    first = batcher(2).per_world(values, (3,))
    assert batcher(2).per_world(values.copy(), (3,)) is first
    assert batcher(3).per_world(values, (3,)) is not first
    assert batcher(2).per_element(values, 1, (3,)) is not first
    values[0] = 5.0
    assert batcher(2).per_world(values, (3,))[0, 0] == 5.0


def test_large_tensors_are_not_cached():
    values = np.array([[1.0], [2.0]])
    assert batcher(2, 3).per_world(values) is batcher(2, 3).per_world(values)
    assert batcher(2, 100_000).per_world(values) is not batcher(2, 100_000).per_world(values)


def test_a_signal_is_not_mistaken_for_a_batch():
    numbers = np.array([1.0, 2.0])
    assert batcher(2).per_element(numbers, 3).shape == (2, 3)
    assert batcher(2).per_element(gs.Signal(numbers), 3).shape == (2, 2, 3)


def test_gradients_pass():
    mass = tensor([1.0, 2.0]).requires_grad_()
    batcher(2).per_element(mass, 3).sum().backward()
    assert torch.equal(mass.grad, tensor([3.0, 3.0]))


def test_constants_made_in_inference_mode_take_part_in_gradients():
    with torch.inference_mode():
        value = batcher(2).per_world(np.array([0.123, 4.56]))
    assert not value.is_inference()
