"""Soft alpha masks: each pixel near an object as a mixture of the background and the colour of the object.

A shadow darkens the background without adding the colour of the object, so it gets an alpha of zero. Light is mixed
linearly in a camera: alpha is the part of the exposure and of the area of a pixel that the object covers.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

NOISE = (0.008, 0.008)  # standard deviation of light, as a part of full scale and of the light of the plate
SHADOW = 0.3  # standard deviation of the depth of shadows near an object
SHADOW_RANGE = (0.25, 0.92)  # light of shadows relative to the plate
SHADOW_SHARE = 0.4  # largest part of the darkness of a shadow that may be explained by the object
MIN_SHADOW = 200  # pixels that tell the tint of shadows
SHADOW_DEPTH = (-0.1, 0.75)  # part of the light that a shadow, or a reflection, takes away from the background
FOREIGN, FOREIGN_NOISE = 0.06, 6.0  # least change of light of a pixel that is not background, of full scale and noise
MIN_ALPHA = 0.12  # of the pixels that are connected with the object
SOLID = (0.1, 0.3)  # largest part of the background and least part of the object in its interior
SHADING = 0.12  # width of the mean of the shading of an object [diameters]
SHADING_RANGE = (0.4, 2.5)  # brightness of parts of an object relative to its colour
CHROMA_WIDTH = 2.0  # standard deviation over which the object's share is averaged [px]
MIN_SAMPLES = 50  # of colours
MIN_PART = 0.12  # of the samples that have the second colour
SAME_HUE = 0.97  # cosine between colours of the same hue
MAX_SHADING = 4.0  # ratio of the brightness of parts of one colour
OTHER = 0.2  # alpha of pixels that are not connected with the object and show something else


def color_mixture(
    light: NDArray[np.float64],
    plate: NDArray[np.float64],
    color: NDArray[np.float64],
    tint: NDArray[np.float64] | float = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Explains each pixel as light = plate - h tint plate + a (color - plate), by least squares with a small h.

    Args:
        light: Linear light [h, w, 3].
        plate: That of the background.
        color: That of the object [3].
        tint: Part of each channel that a shadow takes away [3], with a mean of one.

    Returns:
        The part of the object a, and what is left of the background 1 - a - h [h, w].
    """
    change, object_change, shadow_change = light - plate, color - plate, -tint * plate
    noise = NOISE[0] ** 2 + NOISE[1] ** 2 * (plate * plate).sum(-1)
    object_object = (object_change**2).sum(-1) + noise
    shadow_shadow = (shadow_change**2).sum(-1) + noise / SHADOW**2
    both = (object_change * shadow_change).sum(-1)
    by_object, by_shadow = (change * object_change).sum(-1), (change * shadow_change).sum(-1)
    determinant = np.maximum(object_object * shadow_shadow - both**2, 1e-12)
    amount = (shadow_shadow * by_object - both * by_shadow) / determinant
    depth = (object_object * by_shadow - both * by_object) / determinant
    return amount, 1 - amount - depth


def shadow_tint(
    lights: Sequence[NDArray[np.float64]], plates: Sequence[NDArray[np.float64]], colors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the part of each channel that shadows take away [3], with a mean of one: ambient light has a colour."""
    lost = []
    for light, plate in zip(lights, plates, strict=True):
        part = 1 - light / np.maximum(plate, 1e-3)
        amount = np.max([color_mixture(light, plate, color)[0] for color in colors], 0)
        dark = ((part > 1 - SHADOW_RANGE[1]) & (part < 1 - SHADOW_RANGE[0])).all(-1)
        lost.append(part[dark & (amount < SHADOW_SHARE * part.mean(-1))])
    shadows = np.concatenate(lost)
    if len(shadows) < MIN_SHADOW:
        return np.ones(3)
    tint = np.median(shadows / shadows.mean(-1, keepdims=True), 0)
    return tint / tint.mean()


def object_alpha(
    light: NDArray[np.float64],
    plate: NDArray[np.float64],
    colors: NDArray[np.float64],
    diameter: float,
    tint: NDArray[np.float64] | float = 1.0,
    *,
    several_colors: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the alpha of an object in a window, and which pixels can be used.

    Args:
        light: Linear light of the window [h, w, 3].
        plate: That of the background.
        colors: Those of the object [K, 3], the most frequent one first.
        diameter: Of the object [px].
        tint: Of shadows, see `color_mixture`.
        several_colors: Whether it has colours that its middle does not show: whatever is neither background nor shadow
            then belongs to it.

    Returns:
        Alpha [h, w] in [0, 1], zero away from the object; and pixels that show neither something else nor its border.
    """
    amount, rest = _nearest_mixture(light, plate, colors, diameter, tint)
    solid = ((rest < SOLID[0]) & (amount > SOLID[1])).astype(np.uint8)
    alpha = _sharpened(amount / _shading(amount, solid, diameter), 1 - rest)
    if several_colors:
        alpha = np.maximum(alpha, _foreign(light, plate, tint))
    region = _object_region(alpha)
    alpha = np.maximum(alpha, _interior(alpha * region))
    near = cv2.dilate(region, np.ones((5, 5), np.uint8)) > 0
    other = cv2.dilate(((alpha > OTHER) & ~near).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    return np.where(near, alpha, 0.0), near | ~other


def missed_share(
    light: NDArray[np.float64],
    plate: NDArray[np.float64],
    alpha: NDArray[np.float64],
    tint: NDArray[np.float64] | float = 1.0,
) -> float:
    """Returns the part of what is neither background nor shadow around an object that its alpha [h, w] leaves out."""
    count, labels = cv2.connectedComponents(((_foreign(light, plate, tint) > 0) | (alpha > 0.5)).astype(np.uint8))
    if count < 2:
        return 0.0
    sums = np.bincount(labels.ravel(), alpha.ravel(), minlength=count)
    own = labels == 1 + int(np.argmax(sums[1:]))
    return float((own & (alpha < 0.5)).sum()) / float(own.sum())


def _foreign(
    light: NDArray[np.float64], plate: NDArray[np.float64], tint: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Returns 1 for pixels that are neither background nor shadow and lie inside a region of such pixels [h, w].

    An object may have colours that its middle does not show.
    """
    shadow = tint * plate
    depth = ((plate - light) * shadow).sum(-1) / np.maximum((shadow * shadow).sum(-1), 1e-6)
    depth = np.clip(depth, *SHADOW_DEPTH)[..., None]
    rest = np.linalg.norm(light - plate + depth * shadow, axis=-1)
    noise = np.hypot(NOISE[0], NOISE[1] * np.linalg.norm(plate, axis=-1))
    different = ((rest > FOREIGN) & (rest > FOREIGN_NOISE * noise)).astype(np.uint8)
    different = cv2.morphologyEx(different, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    return np.asarray(cv2.erode(different, np.ones((3, 3), np.uint8)), np.float64)


def _nearest_mixture(
    light: NDArray[np.float64],
    plate: NDArray[np.float64],
    colors: NDArray[np.float64],
    diameter: float,
    tint: NDArray[np.float64] | float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns a and g [h, w] for that colour of the object which its interior has nearby."""
    mixtures = [color_mixture(light, plate, color, tint) for color in colors]
    if len(colors) == 1:
        return mixtures[0]
    errors = np.stack([_misfit(light, plate, *own) for own in zip(colors, mixtures, strict=True)])
    nearest = errors.argmin(0)
    votes = []
    for k, (a, g) in enumerate(mixtures):
        solid = (nearest == k) & (g < SOLID[0]) & (a > SOLID[1])
        votes.append(cv2.GaussianBlur(solid.astype(np.float32), (0, 0), max(1.0, SHADING * diameter)))
    choice = np.argmax(votes, 0)[None]
    amounts, rests = (np.stack(parts) for parts in zip(*mixtures, strict=True))
    return np.take_along_axis(amounts, choice, 0)[0], np.take_along_axis(rests, choice, 0)[0]


def _misfit(
    light: NDArray[np.float64],
    plate: NDArray[np.float64],
    color: NDArray[np.float64],
    mixture: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Returns the squared error of a mixture and of its depth of shadow [h, w]."""
    amount, rest = (own[..., None] for own in mixture)
    error = light - rest * plate - amount * color
    return (error**2).sum(-1) + (NOISE[0] * (amount + rest - 1)[..., 0] / SHADOW) ** 2


def main_colors(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns one or two colours [K, 3] of samples of linear light [N, 3], the most frequent one first.

    Two are returned if they differ in hue, or so much in brightness that it is no shading.
    """
    median = np.median(samples, 0)[None]
    values = np.sqrt(np.maximum(samples, 0)).astype(np.float32)
    if len(values) < MIN_SAMPLES:
        return median
    criteria = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 1e-3)
    start = (values.mean(-1) > np.median(values.mean(-1))).astype(np.int32)[:, None]
    _, labels, _ = cv2.kmeans(values, 2, start, criteria, 1, cv2.KMEANS_USE_INITIAL_LABELS)
    parts = sorted((samples[labels[:, 0] == k] for k in (0, 1)), key=lambda part: -len(part))
    if len(parts[1]) < MIN_PART * len(values):
        return median
    first, second = (np.median(part, 0) for part in parts)
    cosine = float(first @ second) / float(np.linalg.norm(first) * np.linalg.norm(second) + 1e-9)
    ratio = float(np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-9))
    differ = cosine < SAME_HUE or max(ratio, 1 / ratio) > MAX_SHADING
    return np.stack([first, second]) if differ else median


def _sharpened(amount: NDArray[np.float64], hidden: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns alpha [h, w]: the hidden part of the background, which is sharp, times the object's share of it.

    The share follows from colours, which videos store at half the resolution: it is smoothed. A shadow has a small one.
    """
    amount, hidden = np.clip(amount, 0, 1), np.clip(hidden, 0, 1)
    share = (cv2.GaussianBlur(amount, (0, 0), CHROMA_WIDTH) + 0.01) / (
        cv2.GaussianBlur(hidden, (0, 0), CHROMA_WIDTH) + 0.01
    )
    return np.clip(hidden * np.minimum(share, 1.0), 0, 1)


def _shading(amount: NDArray[np.float64], solid: NDArray[np.uint8], diameter: float) -> NDArray[np.float64]:
    """Returns the brightness of the object relative to its colour [h, w]: a mean over the interior nearby."""
    inside = cv2.erode(solid, np.ones((3, 3), np.uint8)).astype(np.float64)
    width = max(1.0, SHADING * diameter)
    total = cv2.GaussianBlur(inside, (0, 0), width)
    mean = cv2.GaussianBlur(inside * amount, (0, 0), width)
    return np.clip((mean + 1e-3) / (total + 1e-3), *SHADING_RANGE)


def _object_region(alpha: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns the connected region with the largest sum of alpha [h, w]."""
    count, labels = cv2.connectedComponents((alpha > MIN_ALPHA).astype(np.uint8))
    if count <= 2:
        return (labels > 0).astype(np.uint8)
    sums = np.bincount(labels.ravel(), alpha.ravel(), minlength=count)
    return (labels == 1 + int(np.argmax(sums[1:]))).astype(np.uint8)


def _interior(alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns one inside the outline of the object: highlights and texture do not make holes."""
    solid = (alpha > 0.85).astype(np.uint8)
    outlines, _ = cv2.findContours(solid, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(solid)
    cv2.drawContours(filled, outlines, -1, 1, cv2.FILLED)
    return np.asarray(cv2.erode(filled, np.ones((3, 3), np.uint8)), np.float64)
