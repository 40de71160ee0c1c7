"""Small videos of balls with known physics: a throw and bounces in the plane of the picture."""

from dataclasses import replace

import numpy as np
from tests.footage.videos import Clip, bounces, draw, save

FPS, GRAVITY = 30.0, 9.81
SCALE = 150.0  # of the throw [px/m]
THROW = Clip(size=(240, 320), count=16, radius=10.0, shutter=0.2)
BOUNCE = Clip(size=(240, 320), count=28, radius=12.0, shutter=0.2)
RESTITUTION = 0.75


def throw(clip, times):
    """Centres [N, 2] of a thrown ball [px] at times in frames, in free fall."""
    t = np.asarray(times) / FPS
    return np.stack([40 + 440 * t, 190 - 520 * t + SCALE * GRAVITY / 2 * t * t], -1)


def wandering(clip, times):
    """Centres [N, 2] of something that is driven: it turns and stops as nothing does that only gravity moves."""
    t = np.asarray(times, float) / clip.count
    x = 160 + 90 * np.sin(2 * np.pi * t) + 30 * np.sin(14 * np.pi * t**2)
    return np.stack([x, 120 + 70 * np.sin(4 * np.pi * t + 1) + 20 * np.cos(22 * np.pi * t)], -1)


def throw_video(path):
    """Writes the throw; its ruler is 1 m long."""
    return save(path, draw(THROW, throw)[0], fps=30)


def wandering_video(path):
    clip = replace(THROW, count=32)
    return save(path, draw(clip, wandering)[0], fps=30)


def bounce_video(path):
    """Writes the bounces."""
    return save(path, draw(BOUNCE, lambda clip, times: bounces(clip, times, RESTITUTION))[0], fps=30)


def bounce_diameter():
    """Diameter of the ball that bounces [m], from its acceleration in the picture."""
    fall = 0.28 * BOUNCE.count / FPS
    acceleration = 2 * 0.65 * BOUNCE.size[0] / fall**2  # [px/s^2]
    return 2 * BOUNCE.radius * GRAVITY / acceleration


RULER = (20.0, 20.0, 20.0 + SCALE, 20.0, 1.0)
