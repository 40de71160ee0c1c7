"""The sRGB transfer function (IEC 61966-2-1), between stored values and linear light."""

from __future__ import annotations

import torch


def srgb_to_linear(values: torch.Tensor) -> torch.Tensor:
    """Converts sRGB values in [0, 1] to linear light in [0, 1]."""
    return torch.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(light: torch.Tensor) -> torch.Tensor:
    """Converts linear light in [0, 1] to sRGB values in [0, 1]."""
    curved = 1.055 * light.clamp(min=0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(light <= 0.0031308, 12.92 * light, curved)
