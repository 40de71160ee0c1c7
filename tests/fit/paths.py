"""Paths of a thrown ball in the image, from the closed form of the motion and a projection of their own."""

import numpy as np
import torch

import gradsim as gs

FPS, COUNT, HEIGHT, WIDTH, FOV = 30.0, 34, 480, 640, 45.0  # the ball leaves the image later
START, VELOCITY, GRAVITY, DISTANCE, RADIUS = (-0.9, -0.5, 0.0), (1.2, 4.6, 0.0), (0.0, -9.81, 0.0), 4.0, 0.06


def dropped_ball(*, gravity=GRAVITY, eye=(0.0, 0.0, DISTANCE), target=(0.0, 0.0, 0.0)) -> gs.Scene:
    """A small ball in flight whose initial position and velocity in the image plane are unknown."""
    x, y, z = START
    ball = gs.Rigid(
        "ball",
        gs.meshes.icosphere(RADIUS, 1),
        mass=0.1,
        position=(gs.unknown(x, low=x - 0.5, high=x + 0.5), gs.unknown(y, low=y - 0.5, high=y + 0.5), z),
        velocity=(gs.unknown(1.0, low=-5.0, high=5.0), gs.unknown(4.0, low=-8.0, high=8.0), 0.0),
    )
    return gs.Scene([ball], gravity=gravity, camera=gs.Camera(eye=eye, target=target, fov=FOV))


def times(count: int = COUNT) -> np.ndarray:
    return np.arange(count) / FPS


def positions(t: np.ndarray, gravity=GRAVITY) -> np.ndarray:
    """Closed form of the flight [m], [T, 3]."""
    t = np.asarray(t)[:, None]
    return np.array(START) + np.array(VELOCITY) * t + np.array(gravity) / 2 * t**2


def project(points: np.ndarray, yaw: float = 0.0) -> np.ndarray:
    """Image positions [px], [T, 2], of a camera at (0, 0, DISTANCE), turned to its right by `yaw` [degrees]."""
    angle = np.deg2rad(yaw)
    relative = points - np.array([0.0, 0.0, DISTANCE])
    right = np.array([np.cos(angle), 0.0, np.sin(angle)])
    forward = np.array([np.sin(angle), 0.0, -np.cos(angle)])
    focal = HEIGHT / 2 / np.tan(np.deg2rad(FOV / 2))
    depth = relative @ forward
    return np.stack([WIDTH / 2 + focal * (relative @ right) / depth, HEIGHT / 2 - focal * relative[:, 1] / depth], 1)


def projected_path(*, noise: float, seed: int, yaw: float = 0.0, gravity=GRAVITY) -> torch.Tensor:
    """The path of the ball in the image with independent noise, [T, 1, 2]."""
    path = project(positions(times(), gravity), yaw)
    path += noise * np.random.default_rng(seed).standard_normal(path.shape)
    return torch.as_tensor(path)[:, None]


def smooth_errors(size: float, seed: int, length: float = 8.0, count: int = COUNT) -> torch.Tensor:
    """Errors of a tracker that drifts: Matern 3/2 in time with a standard deviation `size` [px], [T, 1, 2]."""
    t = np.arange(count)
    distance = np.sqrt(3.0) * np.abs(t[:, None] - t) / length
    kernel = (1 + distance) * np.exp(-distance)
    draw = np.random.default_rng(seed).standard_normal((count, 2))
    return torch.as_tensor(size * np.linalg.cholesky(kernel + 1e-10 * np.eye(count)) @ draw)[:, None]
