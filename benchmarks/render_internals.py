"""Parts of the renderer that no public function exposes.

This is the only file of the benchmarks that imports internals of `gradsim.render`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import gradsim as gs
from gradsim.render import view
from gradsim.render.raster import Rasterizer, rasterize
from gradsim.render.triangles import Triangles

__all__ = ["Rasterizer", "Triangles", "rasterize", "saved_bytes", "visible_triangles"]


def visible_triangles(scene: gs.Scene, trajectory: gs.Trajectory, size: tuple[int, int]) -> Triangles:
    """Returns the triangles of all frames in the camera's coordinates.

    Args:
        scene: The scene.
        trajectory: Its motion.
        size: Height and width of the images [px].
    """
    found, _ = view.visible_triangles(scene, trajectory, size)
    return found


def saved_bytes(render: Callable[[], torch.Tensor]) -> tuple[int, int]:
    """Returns the size of a video, and of everything stored for its backward pass, the video included [bytes]."""
    storages: dict[int, int] = {}

    def record(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        video = render()
    record(video)
    return video.nbytes, sum(storages.values()) + sum(lists.nbytes for lists in _rasterizer_lists(video.grad_fn))


def _rasterizer_lists(node: Any) -> list[Any]:
    """Returns the face lists that rasterizers stored for their backward pass, anywhere in an autograd graph."""
    visited: set[Any] = set()
    queue, found = [node], list[Any]()
    while queue:
        node = queue.pop()
        if node is not None and node not in visited:
            visited.add(node)
            if hasattr(node, "lists"):
                found.append(node.lists)
            queue += [function for function, _ in node.next_functions]
    return found
