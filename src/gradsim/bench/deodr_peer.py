"""The same pictures by DEODR, the differentiable renderer in C++: https://github.com/martinResearch/DEODR.

It samples each pixel's centre and blurs silhouettes over it, in double precision, one frame a call. The configuration
is the fastest found that leaves its results as they are: its compiled functions without their checks of the arguments,
silhouettes found and memory taken beforehand, and each frame's backward right after its forward.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np

from gradsim.render.triangles import Triangles
from gradsim.scene.errors import MissingExtra

BLUR = 1.0  # width of silhouettes [px]


def import_deodr() -> Any:
    """The package.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module("deodr")
    except ImportError:
        raise MissingExtra("the comparison with DEODR", "bench") from None


class DeodrVideo:
    """All frames of triangles with colours at their vertices, over black.

    `forward()` leaves the images in `images` [B, H, W, 3]; `both()` also the gradients of places in pixels and colours.

    Args:
        triangles: What is seen.
        size: Height and width of the images [px].
        weights: Gradient of the loss in the images, [B, H, W, 3].
    """

    def __init__(self, triangles: Triangles, size: tuple[int, int], weights: np.ndarray):
        deodr = import_deodr()
        self._compiled = importlib.import_module("deodr.differentiable_renderer_cython")
        adjacencies = importlib.import_module("deodr.triangulated_mesh").TriMeshAdjacencies
        frames, faces = len(triangles.vertices), triangles.connectivity.faces.numpy()
        neighbours = adjacencies(faces.astype(np.int64))
        given = zip(triangles.vertices.double().numpy(), triangles.attributes.double().numpy(), strict=True)
        self._scenes = [_scene(deodr, neighbours, vertices, faces, colors, size) for vertices, colors in given]
        self._weights = weights
        self._image_adj = np.zeros((*size, 3))
        self._depths = np.zeros((frames, *size))
        self.images = np.zeros((frames, *size, 3))

    @property
    def gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Of places [px], [B, V, 2], and of colours, [B, V, 3], after `both()`."""
        places, colors = zip(*((scene.ij_b, scene.colors_b) for scene in self._scenes), strict=True)
        return np.stack(places), np.stack(colors)

    def forward(self) -> None:
        for scene, image, depth in zip(self._scenes, self.images, self._depths, strict=True):
            self._compiled.renderSceneCpp(scene, BLUR, image, depth, check_valid=False)

    def both(self) -> None:
        for scene, image, depth, weights in zip(self._scenes, self.images, self._depths, self._weights, strict=True):
            self._compiled.renderSceneCpp(scene, BLUR, image, depth, check_valid=False)
            scene.clear_gradients()
            np.copyto(self._image_adj, weights)  # the backward uses it up
            self._compiled.renderSceneBCpp(scene, BLUR, image, depth, self._image_adj, check_valid=False)


def _scene(
    deodr: Any, neighbours: Any, vertices: np.ndarray, faces: np.ndarray, colors: np.ndarray, size: tuple[int, int]
) -> Any:
    """One frame: homogeneous pixels [V, 3], faces [F, 3] and colours [V, 3]."""
    places, face_count, vertex_count = vertices[:, :2] / vertices[:, 2:], len(faces), len(vertices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # DEODR takes numpy's cross product of plane vectors
        silhouettes = neighbours.edge_on_silhouette(places)
    return deodr.Scene2D(
        faces=faces.astype(np.uint32),
        faces_uv=faces.astype(np.uint32),
        ij=places,
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
