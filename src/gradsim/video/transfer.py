"""The sRGB transfer curve, IEC 61966-2-1: between the values that files hold and amounts of light."""

from __future__ import annotations

import torch


def to_light(values: torch.Tensor) -> torch.Tensor:
    """Amounts of light, in [0, 1], of sRGB values in [0, 1]."""
    return torch.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def from_light(light: torch.Tensor) -> torch.Tensor:
    """sRGB values, in [0, 1], of amounts of light in [0, 1]."""
    curved = 1.055 * light.clamp(min=0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(light <= 0.0031308, 12.92 * light, curved)
