"""Small sets of triangles in front of a camera, for tests of rasterizers."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from gradsim.render.triangles import Connectivity, Triangles

TETRAHEDRON = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
TETRAHEDRON_FACES = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
TEXTURES = ((5, 7), (4, 4))  # height and width

DIFFERENTIABLE = ("vertices", "attributes", "texels", "background")


def project(points: np.ndarray, size: tuple[int, int]) -> torch.Tensor:
    """World to homogeneous pixels: the camera at (0, 0, 4) looks along -z, the image being 2.4 m high at the origin."""
    height, width = size
    depth = 4.0 - points[..., 2]
    focal = height * 4.0 / 2.4
    x = focal * points[..., 0] + 0.5 * width * depth
    y = -focal * points[..., 1] + 0.5 * height * depth
    return torch.from_numpy(np.stack([x, y, depth], -1))


def triangles_of(
    points: np.ndarray,
    faces: np.ndarray,
    size: tuple[int, int],
    *,
    near: float = 0.1,
    textured: bool = False,
    both_sides: bool = False,
    seed: int = 0,
) -> Triangles:
    """Points [B, V, 3] in the world and faces [F, 3]; random colours, or textures on two of three faces."""
    random = np.random.default_rng(seed)
    numbers = np.arange(len(faces))
    texture = np.where(numbers % 3 == 2, -1, numbers % 2) if textured else np.full(len(faces), -1)
    attributes = random.uniform(0.2, 0.9, (len(points), 3 * len(faces), 8 if textured else 3))
    starts = np.cumsum([0, *(h * w for h, w in TEXTURES)])
    mesh = Connectivity(
        faces=torch.from_numpy(faces.astype(np.int32)),
        corners=torch.arange(3 * len(faces), dtype=torch.int32).reshape(-1, 3),
        edges=torch.zeros(0, 4, dtype=torch.int32),
        two_sided=torch.full((len(faces),), int(both_sides), dtype=torch.int32),
        face_textures=torch.from_numpy(texture.astype(np.int32)),
        textures=torch.tensor([(int(start), h, w) for start, (h, w) in zip(starts, TEXTURES, strict=False)]).int(),
    )
    return Triangles(
        connectivity=mesh,
        vertices=project(points, size),
        attributes=torch.from_numpy(attributes),
        texels=torch.from_numpy(random.uniform(0.1, 1.0, (int(starts[-1]), 3))) if textured else None,
        background=torch.from_numpy(random.uniform(0.0, 1.0, (1, *size, 3))),
        near=near,
    )


def two_bodies(size: tuple[int, int], *, textured: bool = True) -> Triangles:
    """Two rotated tetrahedra in two frames, the second in front of the first."""
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    far = TETRAHEDRON @ turn.T + (-0.2, 0.1, 0.0)
    close = 0.6 * TETRAHEDRON @ turn + (0.35, -0.15, 1.3)
    moved = close + np.array([-0.3, 0.2, 0.1])
    points = np.stack([np.concatenate([far, close]), np.concatenate([far, moved])])
    return triangles_of(points, np.concatenate([TETRAHEDRON_FACES, TETRAHEDRON_FACES + 4]), size, textured=textured)


def across_the_camera(size: tuple[int, int], *, textured: bool = True) -> Triangles:
    """A floor that extends behind the camera, and a triangle completely behind it."""
    points = np.array(
        [
            [-1.13, -0.71, -1.0],
            [0.92, -0.64, -1.3],
            [0.31, -0.53, 6.0],
            [-0.67, 0.81, 5.0],
            [0, 1, 7],
            [1, 0, 7],
            [0, 0, 6],
        ]
    )
    faces = np.array([[0, 2, 1], [0, 1, 3], [4, 5, 6]])
    return triangles_of(points[None], faces, size, near=0.3, textured=textured, both_sides=True)


def degenerate(size: tuple[int, int]) -> Triangles:
    """Triangles without area, seen edge-on, with a repeated vertex, of a thousandth of a pixel; and a regular one."""
    points = np.array(
        [[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [0, 0, 1.0], [0.1, 0.4, 0], [1e-5, 1e-5, 0], [-1e-5, 2e-5, 0]]
    )
    faces = np.array([[0, 1, 2], [0, 3, 1], [0, 0, 4], [0, 5, 6], [0, 1, 4]])
    return triangles_of(points[None], faces, size, both_sides=True)


def nothing(size: tuple[int, int]) -> Triangles:
    """One triangle far outside the image."""
    return triangles_of(np.array([[[90.0, 0, 0], [91, 0, 0], [90, 1, 0]]]), np.array([[0, 1, 2]]), size)


def changed(triangles: Triangles, **values: torch.Tensor) -> Triangles:
    return dataclasses.replace(triangles, **values)


def leaves(triangles: Triangles) -> dict[str, torch.Tensor]:
    """Copies of the differentiable tensors that require gradients."""
    given = {name: getattr(triangles, name) for name in DIFFERENTIABLE}
    return {name: value.detach().clone().requires_grad_() for name, value in given.items() if value is not None}


def to(triangles: Triangles, dtype: torch.dtype) -> Triangles:
    return changed(triangles, **{name: value.detach().to(dtype) for name, value in leaves(triangles).items()})


def beside(size: tuple[int, int], *, textured: bool = True) -> Triangles:
    """Triangles a fraction of a pixel outside the image, on each of its sides."""
    height, width = size
    gap = 0.3
    corners = np.array(
        [
            [[-gap, 0.37 * height], [-3.1, 0.21 * height], [-2.7, 0.76 * height]],
            [[width + gap, 0.57 * height], [width + 2.2, 0.83 * height], [width + 2.9, 0.17 * height]],
            [[0.43 * width, -gap], [0.87 * width, -2.8], [0.13 * width, -2.1]],
            [[0.61 * width, height + gap], [0.19 * width, height + 3.3], [0.93 * width, height + 2.4]],
        ]
    )
    return on_screen(corners, np.array([4.0, 3.0, 5.0]), size, textured=textured)


def level(size: tuple[int, int], *, textured: bool = True) -> Triangles:
    """A triangle with a horizontal edge, its third vertex far above the image, and the same upside down."""
    height, width = size
    corners = np.array(
        [
            [[-0.2 * width, 0.47 * height], [0.43 * width, -3.7 * height], [1.1 * width, 0.47 * height]],
            [[-0.3 * width, 0.58 * height], [0.57 * width, 4.1 * height], [1.2 * width, 0.58 * height]],
        ]
    )
    return on_screen(corners, np.array([4.0, 3.0, 5.0]), size, textured=textured)


def half_plane(size: tuple[int, int], *, edge: float) -> Triangles:
    """A half-plane to the left of a column [px], in one colour."""
    triangles = on_screen(np.array([[[edge, 90.0], [edge, -90.0], [-90.0, 3.0]]]), np.full(3, 4.0), size)
    return changed(triangles, attributes=triangles.attributes[:, :1].repeat(1, 3, 1))


def stacked(size: tuple[int, int], *, count: int) -> Triangles:
    """Triangles behind one another, all covering the middle of the image."""
    height, width = size
    corner = np.array([[0.5 * width, 0.1 * height], [0.1 * width, 0.8 * height], [0.9 * width, 0.7 * height]])
    shift = np.random.default_rng(0).uniform(-1, 1, (count, 1, 2))
    return on_screen(corner + shift, np.linspace(2.0, 6.0, 3 * count), size)


def on_screen(corners: np.ndarray, depth: np.ndarray, size: tuple[int, int], *, textured: bool = False) -> Triangles:
    """Triangles from pixel coordinates [F, 3, 2] and depths, which are repeated over the corners."""
    count = len(corners)
    depth = np.resize(depth, 3 * count)
    triangles = triangles_of(
        np.zeros((1, 3 * count, 3)), np.arange(3 * count).reshape(-1, 3), size, textured=textured, both_sides=True
    )
    place = np.concatenate([corners.reshape(-1, 2) * depth[:, None], depth[:, None]], 1)
    return changed(triangles, vertices=torch.from_numpy(place[None]))
