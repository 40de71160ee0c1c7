"""Training of the networks of the paper's baselines on videos of the data set, and their predictions.

Everything is kept in a folder: the videos and their features in parts of 20, the weights after each epoch. An
interrupted training is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gradsim.datasets.compilation import build_kernels
from gradsim.datasets.items import Settings
from gradsim.datasets.recording import record
from gradsim.experiments.baselines.networks import ConvLSTM, FeatureHead, efficientnet, features
from gradsim.experiments.baselines.problem import SMALL, training_numbers, true_values
from gradsim.parallel import Workers, run_tasks
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

PART = 20  # videos in a file
EVERY = 4  # the ConvLSTM sees every fourth frame
BATCH = 16
RATES = {"convlstm": 1e-3, "efficientnet": 1e-4}  # of Adam; the latter as in the paper
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Training:
    """What determines the weights of the networks.

    Args:
        folder: Folder of videos, features and weights.
        videos: Number of videos of the training split, at most 800.
        epochs: Passes over them; the paper has 100.
        seed: Of the data set, of the initial weights, and of the order of the videos.
    """

    folder: Path
    videos: int = 800
    epochs: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.videos <= len(training_numbers()):
            raise InvalidInput("videos", self.videos, f"must be from 1 to {len(training_numbers())}")

    def weights(self, network: str) -> Path:
        return self.folder / f"{network}-{self.videos}-{self.epochs}-{self.seed}.pt"

    def part(self, kind: str, number: int) -> Path:
        """Returns the file of a part of the videos or features."""
        return self.folder / f"{kind}-{self.seed}-{number:03d}.npy"

    @property
    def parts(self) -> range:
        return range(-(-self.videos // PART))


def train(network: str, training: Training, progress: Progress, workers: Workers = Workers()) -> None:
    """Trains a network, "convlstm" or "efficientnet", unless its weights exist.

    Args:
        network: The network.
        training: Its settings.
        progress: Receives text about the current step.
        workers: Processes or machines that record the videos.
    """
    if training.weights(network).is_file():
        return
    training.folder.mkdir(parents=True, exist_ok=True)
    _make_videos(training, progress, workers)
    inputs = _inputs(network, training, progress)
    values = _logarithms(training)
    mean, deviation = values.mean(0), values.std(0)
    targets = ((values - mean) / deviation).float()
    _fit(network, training, inputs, targets, (mean, deviation), progress)


def _make_videos(training: Training, progress: Progress, workers: Workers) -> None:
    missing = [number for number in training.parts if not training.part("videos", number).is_file()]
    tasks = run_tasks(lambda number: _write_part(training, number), missing, workers, prepare=build_kernels)
    for done, _ in enumerate(tasks, start=1):
        progress(f"videos for training: {done} of {len(missing)} parts")


def _write_part(training: Training, number: int) -> None:
    settings = Settings("rigid", training.seed)
    numbers = training_numbers()[number * PART : (number + 1) * PART]
    with torch.no_grad():
        samples = [settings.sample(k) for k in numbers]
        videos = [record(sample.true_scene, sample.time, SMALL)[1][0] for sample in samples]
    content = torch.stack([(video * 255).round().to(torch.uint8) for video in videos]).numpy()
    _save_array(training.part("videos", number), content)


def _save_array(file: Path, content: np.ndarray) -> None:
    write_atomically(file, lambda target: np.save(target, content), InvalidInput)


def _inputs(network: str, training: Training, progress: Progress) -> torch.Tensor:
    """Returns what a network sees: frames [N, T, 3, 64, 64], uint8, or features [N, T, 1280, 2, 2], float16."""
    if network == "convlstm":
        parts = [np.load(training.part("videos", number))[:, ::EVERY] for number in training.parts]
        return torch.from_numpy(np.concatenate(parts)[: training.videos]).permute(0, 1, 4, 2, 3)
    pretrained = efficientnet()
    for number in training.parts:
        file = training.part("features", number)
        if not file.is_file():
            progress(f"features of part {number + 1} of {len(training.parts)}")
            videos = torch.from_numpy(np.load(training.part("videos", number)))
            _save_array(file, np.stack([_features(pretrained, video).half().numpy() for video in videos]))
    parts = [np.load(training.part("features", number)) for number in training.parts]
    return torch.from_numpy(np.concatenate(parts)[: training.videos])


def _features(pretrained: nn.Module, video: torch.Tensor) -> torch.Tensor:
    """Returns the features [T, 1280, 2, 2] of a video [T, H, W, 3], uint8."""
    return features(pretrained, video.permute(0, 3, 1, 2).float() / 255.0)


def _logarithms(training: Training) -> torch.Tensor:
    numbers = training_numbers()[: training.videos]
    return torch.tensor([true_values(training.seed, number) for number in numbers], dtype=torch.float64).log()


def _fit(
    network: str,
    training: Training,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    scale: tuple[torch.Tensor, torch.Tensor],
    progress: Progress,
) -> None:
    """Minimizes the mean squared error with Adam; saves the state after each epoch, and the weights at the end."""
    model = _new_model(network, inputs.shape[1], training.seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATES[network])
    state = training.weights(network).with_suffix(".state")
    first = 0
    if state.is_file():
        saved = torch.load(state, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"]
    for epoch in range(first, training.epochs):
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(1000 * training.seed + epoch))
        losses = []
        for batch in order.split(BATCH):
            loss = (model(_as_float(inputs[batch])) - targets[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        progress(f"{network}: epoch {epoch + 1} of {training.epochs}, mean squared error {np.mean(losses):.3f}")
        content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
        write_atomically(state, lambda target, saved=content: torch.save(saved, target), InvalidInput)  # type: ignore[misc]
    weights = {"model": model.state_dict(), "mean": scale[0], "deviation": scale[1], "frames": inputs.shape[1]}
    write_atomically(training.weights(network), lambda target: torch.save(weights, target), InvalidInput)
    state.unlink(missing_ok=True)


def _as_float(inputs: torch.Tensor) -> torch.Tensor:
    return inputs.float() / 255.0 if inputs.dtype == torch.uint8 else inputs.float()


def _new_model(network: str, frames: int, seed: int) -> nn.Module:
    """Returns a network with random weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ConvLSTM() if network == "convlstm" else FeatureHead(frames)


@lru_cache(maxsize=2)
def _trained(network: str, file: Path) -> tuple[nn.Module, dict[str, Any]]:
    if not file.is_file():
        raise InvalidInput(
            "training", str(file), f"does not exist: train {network} first (gradsim reproduce baselines)"
        )
    saved = torch.load(file, weights_only=True)
    model = _new_model(network, saved["frames"], 0)
    model.load_state_dict(saved["model"])
    return model.eval(), saved


@lru_cache(maxsize=1)
def _pretrained() -> nn.Module:
    return efficientnet()


def predict(network: str, training: Training, video: torch.Tensor) -> list[float]:
    """Returns mass [kg], kd, ke, kf and mu that a trained network reads from a video [T, 64, 64, 3] in [0, 1]."""
    model, saved = _trained(network, training.weights(network))
    frames = (video * 255).round().to(torch.uint8)
    if network == "convlstm":
        seen = _as_float(frames[::EVERY].permute(0, 3, 1, 2))
    else:
        seen = _features(_pretrained(), frames).half().float()
    with torch.no_grad():
        standardized = model(seen[None])[0].double()
    values: list[float] = (standardized * saved["deviation"] + saved["mean"]).exp().tolist()
    return values
