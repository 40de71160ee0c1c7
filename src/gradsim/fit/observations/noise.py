"""Noise of a video, estimated from the video itself: from temporal differences of static pixels."""

from __future__ import annotations

import math

import torch

START_QUANTILE = 0.1  # share of the pixels that are assumed static at first: those that change least
NORMAL_LIMIT = 3.5  # largest temporal variance of a static pixel, as a quantile of a normal distribution
SATURATION_MARGIN = 3.0  # smallest distance of a pixel from the ends of the range, in standard deviations
MIN_SHARE, MAX_SHARE = 0.3, 0.9  # of the values of a pixel inside the range, where the rest are cut off
MIN_CHANGES, MIN_CHANGED = 4, 0.6  # of such a pixel between inside and outside, also relative to independent values
MOVING_FACTOR = 4.0  # largest variance of such a pixel relative to the median; larger ones show something that moves
MIN_PIXELS = 32  # fewest static pixels from which the noise is estimated
ITERATIONS = 20
LEVELS = 255  # steps of 8-bit values


def video_noise(video: torch.Tensor, channels: torch.Tensor | None, usable: torch.Tensor | None) -> float | None:
    """Returns the standard deviation of a pixel's channel, including the rounding of 8-bit values.

    A pixel is static if its temporal variance is compatible with the noise, which is estimated from static pixels: both
    are found by iteration from the pixels that change least. Pixels near the ends of the range are saturated: their
    noise is cut off. If all static pixels are, as before a black background, the noise is what a cut-off normal
    distribution with their mean square and their share of values inside the range would have.

    Args:
        video: Colours [T, H, W, 3].
        channels: Linear map of the colours to the compared channels, [C, 3]; None for the colours themselves.
        usable: Whether a pixel was measured and is compared, [T, H, W]; None if all are.

    Returns:
        None if there are too few static pixels.
    """
    if len(video) < 3:
        return None
    colors = video.flatten(1, 2)
    if usable is not None:
        colors = colors[:, usable.flatten(1).all(0)]
    mixed = colors if channels is None else colors @ channels.T
    rounding = 1.0 / LEVELS if is_8_bit(colors) else 0.0
    gain = 1.0 if channels is None else float((channels**2).sum(1).mean())  # variance of a channel for unit colours
    variance = _static_variance(colors, mixed, rounding * math.sqrt(gain))
    if variance is None and (clipped := _clipped_variance(colors, rounding)) is not None:
        variance = gain * clipped
    if variance is None:
        return None
    if rounding:
        variance = gain * _unrounded_variance(variance / gain, rounding) + gain * rounding**2 / 12
    return math.sqrt(variance)


def is_8_bit(colors: torch.Tensor) -> bool:
    """Whether colours are whole multiples of 1 / 255."""
    for part in (colors[:1], colors):  # one frame shows of most videos that they are not
        steps = part * LEVELS
        if not bool((steps.sub_(steps.round()).abs_() < 1e-3).all()):
            return False
    return bool((colors > 1.0 / LEVELS).any())


def _static_variance(colors: torch.Tensor, mixed: torch.Tensor, step: float) -> float | None:
    """Returns the temporal variance of static pixels whose values [T, P, 3] are not saturated."""
    differences = mixed.diff(dim=0)
    noise = (differences**2).mean((0, 2)) / 2  # of each pixel, [P]
    spread = mixed.var(0).mean(-1)
    extremes = _Extremes(colors)
    inside = extremes.unsaturated(0.0)
    if int(inside.sum()) < MIN_PIXELS:
        return None
    count = len(differences)
    noise_freedom = mixed.shape[-1] * 2 * count**2 / (3 * count - 1)
    spread_freedom = mixed.shape[-1] * count
    variance = float(noise[inside].quantile(START_QUANTILE)) / _chi_square(noise_freedom, -1.2816)
    for _ in range(ITERATIONS):
        floor = step**2 / 4 + 1e-24  # a pixel between two steps flips between them
        static = inside & (noise <= _chi_square(noise_freedom, NORMAL_LIMIT) * (variance + floor))
        static &= spread <= _chi_square(spread_freedom, NORMAL_LIMIT) * (variance + floor)
        static &= extremes.unsaturated(SATURATION_MARGIN * math.sqrt(variance))
        if int(static.sum()) < MIN_PIXELS:
            return None
        before, variance = variance, float(noise[static].mean())
        if abs(variance - before) <= 1e-6 * variance:
            break
    return variance


def _clipped_variance(colors: torch.Tensor, step: float) -> float | None:
    """Returns the variance of the noise from pixels [T, P, 3] whose values are cut off at 0 or 1 in some frames.

    A normal distribution with standard deviation s and mean a s has a share q(a) of positive values, and the mean
    square s^2 ((a^2 + 1) q + a p(a)) if negative ones are set to zero, with the density p.
    """
    found = []
    values = colors.flatten(1)
    for height in (values, 1.0 - values):  # above black, below white
        height = (height - step / 2).clamp_min(0.0)  # rounded values are positive from half a step on
        positive = height > 0.0
        share = positive.to(height.dtype).mean(0)
        changes = (positive[1:] != positive[:-1]).sum(0)
        random = 2 * share * (1 - share) * (len(height) - 1)  # changes of independent values; an object makes few
        chosen = (share >= MIN_SHARE) & (share <= MAX_SHARE) & (changes >= MIN_CHANGES)
        chosen &= changes >= MIN_CHANGED * random
        share = share[chosen]
        mean = torch.special.ndtri(share)
        density = torch.exp(-(mean**2) / 2) / math.sqrt(2 * math.pi)
        found.append((height[:, chosen] ** 2).mean(0) / ((mean**2 + 1) * share + mean * density))
    variances = torch.cat(found)
    if len(variances) < MIN_PIXELS:
        return None
    static = variances[variances <= MOVING_FACTOR * variances.median()]
    variance = float(static.mean())
    return variance if variance > (2 * step) ** 2 else None  # finer noise is lost in the steps


class _Extremes:
    """Mean and extreme values over time of pixels [T, P, 3]."""

    def __init__(self, colors: torch.Tensor):
        self.mean, self.low, self.high = colors.mean(0), colors.amin(0), colors.amax(0)

    def unsaturated(self, margin: float) -> torch.Tensor:
        """Whether a pixel stays away from the ends of the range that the video reaches, [P]."""
        inside = torch.ones(len(self.mean), dtype=torch.bool)
        if float(self.high.max()) == 1.0:
            inside &= ((self.high < 1.0) & (self.mean < 1.0 - margin)).all(-1)
        if float(self.low.min()) == 0.0:
            inside &= ((self.low > 0.0) & (self.mean > margin)).all(-1)
        return inside


def _chi_square(freedom: float, normal: float) -> float:
    """Quantile of chi^2 / freedom at the quantile of a normal distribution (Wilson and Hilferty)."""
    spread = 2.0 / (9.0 * freedom)
    return max(0.0, 1.0 - spread + normal * math.sqrt(spread)) ** 3


def _unrounded_variance(measured: float, step: float) -> float:
    """Returns the variance of noise before rounding, from the mean temporal variance after it.

    With noise of variance v and levels spread evenly between the steps, the rounded values have the variance
    v + step^2 / 12 minus the mean square of their constant error, a Fourier series in the level.
    """

    def rounded(variance: float) -> float:
        terms = (math.exp(-4 * (math.pi * k) ** 2 * variance / step**2) / k**2 for k in range(1, 60))
        return variance + step**2 / 12 - step**2 / (2 * math.pi**2) * sum(terms)

    low, high = 0.0, measured
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rounded(middle) < measured else (low, middle)
    return (low + high) / 2
