"""Double pendula by another formulation: two points in the plane, held by the tensions of their rods."""

import cv2
import numpy as np
from tests.footage.videos import coverage

GRAVITY = 9.81


def double_pendulum(times, lengths, angles, ratio, *, drag=0.02, step=1e-3):
    """Positions of the upper and the lower bob [N, 2, 2] below the pivot, y up [m].

    Tensions keep the lengths; what rounding adds to them is undone in each step.
    """
    first, second = lengths
    upper = first * np.array([np.sin(angles[0]), -np.cos(angles[0])])
    lower = upper + second * np.array([np.sin(angles[1]), -np.cos(angles[1])])
    place, speed = np.array([upper, lower]), np.zeros((2, 2))
    masses, now, found = np.array([1.0, ratio]), 0.0, []
    for t in times:
        while now < t - 1e-12:
            h = min(step, t - now)
            rods = np.array([place[0], place[1] - place[0]])
            rates = np.array([speed[0], speed[1] - speed[0]])
            units = rods / np.linalg.norm(rods, axis=1, keepdims=True)
            free = np.array([[0.0, -GRAVITY]] * 2) - drag * speed
            # Rods keep their lengths: unit . (acceleration of rod) = -|rate across|^2 / length.
            pulls = np.array([-units[0], 0 * units[0]]), np.array([units[1], -units[1]])
            columns = [pull / masses[:, None] for pull in pulls]

            def rod_part(a, units=units):
                return np.array([units[0] @ a[0], units[1] @ (a[1] - a[0])])

            across = (rates**2).sum(1) - (rates * units).sum(1) ** 2
            wanted = -across / np.array(lengths) - rod_part(free)
            tensions = np.linalg.solve(np.stack([rod_part(column) for column in columns], 1), wanted)
            speed = speed + h * (free + sum(t * own for t, own in zip(tensions, columns, strict=True)))
            place = place + h * speed
            place[0] *= first / np.linalg.norm(place[0])
            rod = place[1] - place[0]
            place[1] = place[0] + rod * second / np.linalg.norm(rod)
            now += h
        found.append(place.copy())
    return np.array(found)


def draw_double_pendulum(bobs, size, pivot, scale, radii, colors, background):
    """Images [T, H, W, 3] of 8 bits of bobs [T, 2, 2] [m] on grey rods."""
    random, images = np.random.default_rng(3), []
    for upper, lower in bobs:
        image = background.copy()
        places = [np.array(pivot) + scale * np.array([own[0], -own[1]]) for own in (upper, lower)]
        rods = np.zeros(size, np.uint8)
        for start, end in ((np.array(pivot), places[0]), (places[0], places[1])):
            ends = [tuple(int(x) for x in np.round(8 * (own - 0.5))) for own in (start, end)]
            cv2.line(rods, *ends, 255, 2, cv2.LINE_AA, 3)
        image = image + (0.2 - image) * (rods[..., None] / 255)
        for place, radius, color in zip(places, radii, colors, strict=True):
            disc = coverage(place, radius, size)[..., None]
            image = image * (1 - disc) + np.array(color) * disc
        images.append(image + 0.008 * random.standard_normal(image.shape))
    return (np.clip(images, 0, 1) * 255).round().astype(np.uint8)
