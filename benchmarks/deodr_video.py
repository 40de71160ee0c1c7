"""Videos by DEODR, the differentiable renderer in C++: https://github.com/martinResearch/DEODR.

DEODR samples the centre of each pixel and blurs silhouettes over a pixel, in double precision, one frame a call. The
configuration is the fastest one found that does not change its results: compiled functions without argument checks,
silhouettes and memory computed in advance, and the backward pass of each frame directly after its forward pass.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from benchmarks.render_internals import Triangles
from gradsim.scene.errors import MissingExtra

BLUR = 1.0  # width of silhouettes [px]


def import_deodr() -> Any:
    """Returns the package.

    Raises:
        MissingExtra: DEODR is not installed.
    """
    try:
        return importlib.import_module("deodr")
    except ImportError:
        raise MissingExtra("the comparison with DEODR", "bench") from None


class DeodrVideo:
    """All frames of triangles with colours at their vertices, over black.

    `forward()` writes the images to `images` [B, H, W, 3]; `forward_backward()` also computes `gradients`.

    Args:
        triangles: The triangles.
        size: Height and width of the images [px].
        weights: Gradient of the loss in the images, [B, H, W, 3].
    """

    def __init__(self, triangles: Triangles, size: tuple[int, int], weights: np.ndarray):
        deodr = import_deodr()
        self._compiled = importlib.import_module("deodr.differentiable_renderer_cython")
        adjacencies = importlib.import_module("deodr.triangulated_mesh").TriMeshAdjacencies
        frames, faces = len(triangles.vertices), triangles.connectivity.faces.numpy()
        adjacency = adjacencies(faces.astype(np.int64))
        per_frame = zip(triangles.vertices.double().numpy(), triangles.attributes.double().numpy(), strict=True)
        self._scenes = [_build_scene(deodr, adjacency, vertices, faces, colors, size) for vertices, colors in per_frame]
        self._weights = weights
        self._image_adj = np.zeros((*size, 3))
        self._depths = np.zeros((frames, *size))
        self.images = np.zeros((frames, *size, 3))

    @property
    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of pixel coordinates [B, V, 2] and of colours [B, V, 3] after `forward_backward()`."""
        pixels, colors = zip(*((scene.ij_b, scene.colors_b) for scene in self._scenes), strict=True)
        return np.stack(pixels), np.stack(colors)

    def forward(self) -> None:
        for scene, image, depth in zip(self._scenes, self.images, self._depths, strict=True):
            self._compiled.renderSceneCpp(scene, BLUR, image, depth, check_valid=False)

    def forward_backward(self) -> None:
        for scene, image, depth, weights in zip(self._scenes, self.images, self._depths, self._weights, strict=True):
            self._compiled.renderSceneCpp(scene, BLUR, image, depth, check_valid=False)
            scene.clear_gradients()
            np.copyto(self._image_adj, weights)  # DEODR's backward pass overwrites it
            self._compiled.renderSceneBCpp(scene, BLUR, image, depth, self._image_adj, check_valid=False)


def _build_scene(
    deodr: Any, adjacency: Any, vertices: np.ndarray, faces: np.ndarray, colors: np.ndarray, size: tuple[int, int]
) -> Any:
    """Returns one frame of homogeneous pixels [V, 3], faces [F, 3] and colours [V, 3]."""
    pixels, face_count, vertex_count = vertices[:, :2] / vertices[:, 2:], len(faces), len(vertices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # DEODR calls numpy's cross product on 2D vectors
        silhouettes = adjacency.edge_on_silhouette(pixels)
    return deodr.Scene2D(
        faces=faces.astype(np.uint32),
        faces_uv=faces.astype(np.uint32),
        ij=pixels,
        depths=vertices[:, 2].copy(),
        textured=np.zeros(face_count, dtype=bool),
        uv=np.zeros((vertex_count, 2)),
        shade=np.zeros(vertex_count),
        colors=colors.copy(),
        shaded=np.zeros(face_count, dtype=bool),
        edgeflags=silhouettes,
        height=size[0],
        width=size[1],
        nb_colors=3,
        texture=np.zeros((0, 0)),
        background_color=np.zeros(3),
        backface_culling=True,
        integer_pixel_centers=False,
    )
