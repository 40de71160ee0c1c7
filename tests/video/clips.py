"""A synthetic clip, and helpers to save and compare videos."""

import torch

import gradsim as gs


def clip(frames=24, height=64, width=96):
    """A shaded square that slides over a shaded background, antialiased over one pixel as by a renderer."""
    t, y, x = torch.meshgrid(
        *(torch.arange(n, dtype=torch.float64) + 0.5 for n in (frames, height, width)), indexing="ij"
    )
    dx, dy = x - width * (0.25 + 0.5 * t / frames), y - height * (0.4 + 0.2 * torch.sin(t / 5))
    inside = (0.5 + 0.2 * height - torch.maximum(dx.abs(), dy.abs())).clamp(0, 1)[..., None]
    square = torch.stack([0.7 + 0.2 * dx / width, 0.3 + 0.2 * dy / height, 0.2 + 0 * x], -1)
    background = torch.stack([0.5 + 0.3 * y / height, 0.55 + 0.2 * x / width, 0.7 - 0.2 * y / height], -1)
    return inside * square + (1 - inside) * background


CLIP = clip()
ROUNDED = (CLIP * 255).round() / 255


def psnr(a, b):
    return -10 * torch.log10(((a - b) ** 2).mean()).item()


def saved(path, video=CLIP, fps=30.0, **options):
    gs.save_video(path, video, fps, **options)
    return path
