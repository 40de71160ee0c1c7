"""Rasterizers: images of triangles, as one differentiable function over all frames."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import torch

from gradsim import bridge
from gradsim.render.execution import FrameLists, Inputs, JobTemplate, job_template, run
from gradsim.render.job import TILE
from gradsim.render.kernels.raster import RasterKernel, raster_kernel
from gradsim.render.memory import empty
from gradsim.render.renderer import Frames, Renderer
from gradsim.render.triangles import Triangles, check_on_cpu
from gradsim.render.view import visible_triangles
from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import BrokenGradient
from gradsim.scene.memory import check_memory
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

TEXEL_CHUNKS = 16  # chunks of frames, each with its own gradient of the texels


class Rasterizer(Renderer):
    """A renderer that draws triangles with native code.

    A subclass is one Python file and one C++ header, which defines `<stem>_forward<T, A>(RasterJob<T>&)` and
    `<stem>_backward<T, A>(RasterJob<T>&)`. The names of options and saved values are known to C++ as
    `<stem>_option::name` and `<stem>_saved::name`.
    """

    header: ClassVar[Path]
    saved: ClassVar[tuple[str, ...]]  # values saved of each pixel for the backward; first the background's weight

    @property
    @abstractmethod
    def options(self) -> dict[str, float]:
        """Values that native code reads."""

    def check_camera(self, near: float) -> None:
        """Raises if an option contradicts the depth of the camera's near plane [m]."""

    def check_gradient(self, image_adj: torch.Tensor, *, alpha: bool, geometry: bool) -> None:
        """Warns if the backward pass will miss something.

        Args:
            image_adj: Gradient of the loss in the images, [B, H, W, 3 or 4].
            alpha: Whether the images have a channel of coverage.
            geometry: Whether the vertices need a gradient.
        """

    def render(
        self,
        scene: Scene,
        trajectory: Trajectory,
        size: tuple[int, int],
        frames: Frames = None,
        *,
        alpha: bool = False,
        depth: bool = False,
    ) -> Any:
        """Returns what `gs.render` returns, for the same arguments."""
        check_on_cpu("trajectory", trajectory.time)
        visible, shape = visible_triangles(scene, trajectory, size, frames)
        self.check_camera(visible.near)
        video = rasterize(self, visible, size, alpha=alpha).unflatten(0, shape)
        return (video, _depth(self, visible, size).unflatten(0, shape)) if depth else video

    def render_depth(
        self, scene: Scene, trajectory: Trajectory, size: tuple[int, int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the depth summed over the covered part of each pixel and the coverage, without the colours.

        Both are differentiable everywhere; their ratio, the depth that `gs.render` returns, is not defined where the
        coverage is 0.

        Returns:
            The mean over a pixel of the depth [m], 0 where nothing covers it, and the coverage, [..., T, H, W] each.
        """
        check_on_cpu("trajectory", trajectory.time)
        visible, shape = visible_triangles(scene, trajectory, size)
        self.check_camera(visible.near)
        depth, coverage = _covered_depth(self, visible, size)
        return depth.unflatten(0, shape), coverage.unflatten(0, shape)


def rasterize(rasterizer: Rasterizer, triangles: Triangles, size: tuple[int, int], *, alpha: bool) -> torch.Tensor:
    """Returns images [B, H, W, 3], or [B, H, W, 4] with the coverage last.

    Raises:
        UnsupportedDevice: A tensor is not on the CPU.
        MixedDtypes: Tensors differ in type.
    """
    triangles.check_tensors()
    _check_memory(rasterizer, triangles, size)
    texels = triangles.texels
    if texels is None:
        texels = _no_texels(triangles.attributes.dtype)
    call = _Call(rasterizer, triangles, size, alpha)
    return _Rasterize.apply(call, triangles.vertices, triangles.attributes, texels, triangles.background)


def _check_memory(rasterizer: Rasterizer, triangles: Triangles, size: tuple[int, int]) -> None:
    """Raises OutOfMemory if the images, with what is saved for the backward, do not fit into memory."""
    count, channels = len(triangles.vertices), 4 + len(rasterizer.saved)
    needed = float(count) * math.prod(size) * channels * triangles.vertices.element_size()
    check_memory("size", f"{size} for {count} images", needed, "give smaller images, or fewer frames or worlds")


def _depth(rasterizer: Rasterizer, visible: Triangles, size: tuple[int, int]) -> torch.Tensor:
    """Returns the depth averaged over the covered part of each pixel [m], [B, H, W], infinite where that is empty."""
    depth, coverage = _covered_depth(rasterizer, visible, size)
    empty = coverage <= torch.finfo(coverage.dtype).eps
    return torch.where(empty, torch.inf, depth / torch.where(empty, 1.0, coverage))


def _covered_depth(
    rasterizer: Rasterizer, visible: Triangles, size: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns depth times coverage [m] and coverage, [B, H, W] each: two channels of colours (depth, 1, 0) on black."""
    depths = torch.nn.functional.pad(visible.vertices[..., 2:], (0, 1), value=1.0)
    colors = torch.nn.functional.pad(depths, (0, 1))
    black = visible.background.new_zeros(1, 1, 1, 3)
    mesh = visible.connectivity.with_vertex_attributes
    colored = Triangles(mesh, visible.vertices, colors, None, black, visible.near)
    depth, coverage, _ = rasterize(rasterizer, colored, size, alpha=False).unbind(-1)
    return depth, coverage


@cache
def _no_texels(dtype: torch.dtype) -> torch.Tensor:
    with torch.inference_mode(False):  # later calls may differentiate
        return torch.zeros(0, 3, dtype=dtype)


class _Call:
    """Everything about a call of `rasterize` except its tensors."""

    def __init__(self, rasterizer: Rasterizer, triangles: Triangles, size: tuple[int, int], alpha: bool):
        options = rasterizer.options
        self.rasterizer, self.option_names = rasterizer, tuple(options)
        (self.height, self.width), self.channels = size, 4 if alpha else 3
        self.template: JobTemplate = job_template(
            triangles.connectivity, tuple(options.values()), triangles.near, (*size, self.channels)
        )
        self.threads = bridge.kernel_threads()

    def kernel(self, inputs: Inputs, direction: str) -> RasterKernel:
        bridge.initialize()
        real = bridge.real_type(inputs.vertices.dtype)
        rasterizer, count = self.rasterizer, inputs.attributes.shape[-1]
        return raster_kernel(rasterizer.header, self.option_names, rasterizer.saved, real, count, direction)


class _Rasterize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        call: _Call,
        vertices: torch.Tensor,
        attributes: torch.Tensor,
        texels: torch.Tensor,
        background: torch.Tensor,
    ) -> torch.Tensor:
        if attributes.stride() != (0, attributes.shape[2], 1):  # else all frames share them
            attributes = attributes.contiguous()
        inputs = Inputs(vertices.contiguous(), attributes, texels.contiguous(), background.contiguous())
        size = (len(vertices), call.height, call.width)
        saved_count = len(call.rasterizer.saved)
        needs_saved = saved_count > 1 or ctx.needs_input_grad[4]
        overhang = (TILE.max_rows - 1) * call.width + TILE.columns  # of a tile that begins at the last pixel
        image = empty((*size, call.channels), vertices.dtype)
        saved = empty((*size, saved_count), vertices.dtype) if needs_saved else None
        front = empty((math.prod(size) + overhang,), torch.int32)
        lists = FrameLists(call.template, len(vertices))
        job = call.template.create(inputs, lists, image=image, saved=saved, front_triangle=front)
        job.list_needed = call.template.list_length
        job.copies = not any(ctx.needs_input_grad)
        run(call.kernel(inputs, "forward"), job, lists, call.threads)
        ctx.call, ctx.lists = call, lists
        ctx.save_for_backward(*inputs, image, saved, front)
        return image

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, image_adj: torch.Tensor) -> Any:
        call, lists = ctx.call, ctx.lists
        *tensors, image, saved, front = ctx.saved_tensors
        inputs = Inputs(*tensors)
        _, geometry, color, texture, behind = ctx.needs_input_grad
        call.rasterizer.check_gradient(image_adj, alpha=call.channels == 4, geometry=geometry)
        image_adj = image_adj.contiguous()
        vertices_adj = empty(tuple(inputs.vertices.shape), inputs.vertices.dtype)
        attributes_adj = empty(tuple(inputs.attributes.shape), inputs.attributes.dtype) if color else None
        chunks = min(TEXEL_CHUNKS, len(image)) if texture else len(image)
        texels_adj = inputs.texels.new_zeros(chunks, *inputs.texels.shape) if texture else None
        adjoints = {"vertices_adj": vertices_adj, "attributes_adj": attributes_adj, "texels_adj": texels_adj}
        forward = {"image": image, "saved": saved, "front_triangle": front}
        job = call.template.create(inputs, lists, **forward, image_adj=image_adj, **adjoints)
        job.chunk_count = chunks
        if not run(call.kernel(inputs, "backward"), job, lists, call.threads):
            raise BrokenGradient("the gradient that reached the video is NaN or infinite: check the loss")
        background_adj = None
        if behind:  # the first saved value is the background's weight in the pixel
            background_adj = (saved[..., :1] * image_adj[..., :3]).sum_to_size(inputs.background.shape)
        return None, vertices_adj, attributes_adj, None if texels_adj is None else texels_adj.sum(0), background_adj
