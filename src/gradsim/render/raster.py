"""Triangles to images by a rasterizer, forward and backward, as one differentiable function over all frames.

Frames are cut into shares, each with a job of its own; threads take shares as they come free. The shares do not depend
on the number of threads, so neither do the results, to the last bit.
"""

from __future__ import annotations

import ctypes
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

import torch

from gradsim import bridge
from gradsim.render.job import Job
from gradsim.render.kernels.raster import RasterKernel, RasterKernels, raster_kernels
from gradsim.render.memory import empty
from gradsim.render.triangles import Connectivity, Triangles
from gradsim.scene.errors import BrokenGradient
from gradsim.scene.once import once_differentiable

SHARES = 16
SPARE = 64  # integers behind the owners: native code reads tiles that reach over the last pixel
FIRST_SCRATCH = 1 << 20  # [bytes]


class Rasterizer(Protocol):
    """How triangles become pixels; `stem` names its header in kernels/native."""

    stem: ClassVar[str]
    kept_width: ClassVar[int]  # values it keeps of each pixel; the first is how much of the background is seen

    @property
    def options(self) -> tuple[float, ...]: ...

    def before_backward(self, image_adj: torch.Tensor, *, alpha: bool, shape: bool) -> None:
        """A look at the image's adjoint before it is used, `shape` telling whether the vertices want a gradient."""


def rasterize(rasterizer: Rasterizer, triangles: Triangles, size: tuple[int, int], *, alpha: bool) -> torch.Tensor:
    """Images [B, H, W, 3], or [B, H, W, 4] with the coverage last."""
    texels = triangles.texels
    if texels is None:
        texels = triangles.attributes.new_zeros(0, 3)
    call = _Call(rasterizer, triangles.connectivity, triangles.near, size, alpha)
    return _Raster.apply(call, triangles.vertices, triangles.attributes, texels, triangles.background)


class _Inputs(NamedTuple):
    vertices: torch.Tensor
    attributes: torch.Tensor
    texels: torch.Tensor
    background: torch.Tensor


class _Call:
    """Everything about a call but its tensors."""

    def __init__(
        self,
        rasterizer: Rasterizer,
        connectivity: Connectivity,
        near: float,
        size: tuple[int, int],
        alpha: bool,
    ):
        self.rasterizer, self.connectivity, self.near = rasterizer, connectivity, near
        (self.height, self.width), self.channels = size, 4 if alpha else 3
        self.threads = torch.get_num_threads()

    def jobs(self, inputs: _Inputs, **buffers: torch.Tensor | None) -> list[Job]:
        """One job for each share of the frames."""
        vertices, attributes, texels, background = inputs
        size = (self.height, self.width, self.channels)
        common = Job.from_buffer_copy(_blank(self.connectivity, self.rasterizer.options, self.near, size))
        frames, common.vertex_count = vertices.shape[:2]
        common.corner_count = attributes.shape[1]
        common.attribute_stride = attributes.stride(0)
        common.background_frame_stride = background.stride(0) if background.shape[0] > 1 else 0
        common.background_pixel_stride = 3 if background.shape[1:3] != (1, 1) else 0
        common.vertices, common.attributes = vertices.data_ptr(), attributes.data_ptr()
        common.texels, common.background = texels.data_ptr(), background.data_ptr()
        for name, tensor in buffers.items():
            if tensor is not None:
                setattr(common, name, tensor.data_ptr())
        shares = min(SHARES, frames)
        jobs = [common, *(Job.from_buffer_copy(common) for _ in range(1, shares))]
        for k, job in enumerate(jobs):
            job.first = job.next = frames * k // shares
            job.last = frames * (k + 1) // shares
        return jobs

    def kernels(self, inputs: _Inputs) -> RasterKernels:
        bridge.initialize()
        real = bridge.real_type(inputs.vertices.dtype)
        return raster_kernels(self.rasterizer.stem, real, inputs.attributes.shape[-1])

    def finish(self, kernel: RasterKernel, jobs: list[Job], shares: list[_Share]) -> None:
        """Run all jobs to their last frames, each by whichever thread comes free first."""
        waiting = iter(range(len(jobs)))

        def work() -> None:
            for k in waiting:  # of which a thread's step is one
                _finish(kernel, jobs[k], shares[k])

        helpers = min(self.threads, len(jobs)) - 1
        with bridge.running:
            running = [_pool(self.threads).submit(work) for _ in range(helpers)]
            try:
                work()
            finally:
                for helper in running:
                    helper.result()


@lru_cache(maxsize=64)
def _blank(mesh: Connectivity, options: tuple[float, ...], near: float, size: tuple[int, int, int]) -> Job:
    """A job without the tensors of a call."""
    height, width, channels = size
    return Job(
        height=height,
        width=width,
        channels=channels,
        face_count=len(mesh.faces),
        edge_count=len(mesh.edges),
        near=near,
        options=(ctypes.c_double * 4)(*options),
        **{name: getattr(mesh, name).data_ptr() for name in ("faces", "corners", "edges", "marks", "textures")},
    )


class _Share:
    """What a share's forward leaves for its backward: a list that grows while it is written."""

    def __init__(self, job: Job):
        frames = job.last - job.first
        self.starts = torch.empty(frames + 1, dtype=torch.int64)
        self.list = torch.empty(1024 + 8 * frames * (job.height + job.width), dtype=torch.int32)
        self.lend(job)

    def lend(self, job: Job) -> None:
        job.starts, job.list, job.list_size = self.starts.data_ptr(), self.list.data_ptr(), self.list.shape[0]

    def grow(self, job: Job) -> None:
        longer = torch.empty(max(job.list_need, 2 * len(self.list)), dtype=torch.int32)
        longer[: len(self.list)] = self.list
        self.list = longer
        self.lend(job)


class _Raster(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        call: _Call,
        vertices: torch.Tensor,
        attributes: torch.Tensor,
        texels: torch.Tensor,
        background: torch.Tensor,
    ) -> torch.Tensor:
        if attributes.stride(0) != 0 or not attributes[0].is_contiguous():
            attributes = attributes.contiguous()
        inputs = _Inputs(vertices.contiguous(), attributes, texels.contiguous(), background.contiguous())
        size = (len(vertices), call.height, call.width)
        width = call.rasterizer.kept_width
        image = empty((*size, call.channels), vertices.dtype)
        kept = empty((*size, width), vertices.dtype) if width > 1 or ctx.needs_input_grad[4] else None
        owners = empty((math.prod(size) + call.width + SPARE,), torch.int32)
        jobs = call.jobs(inputs, image=image, kept=kept, owners=owners)
        shares = [_Share(job) for job in jobs]
        call.finish(call.kernels(inputs).forward, jobs, shares)
        ctx.call, ctx.shares = call, shares
        ctx.save_for_backward(*inputs, image, kept, owners)
        return image

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, image_adj: torch.Tensor) -> Any:
        call, shares = ctx.call, ctx.shares
        *given, image, kept, owners = ctx.saved_tensors
        inputs = _Inputs(*given)
        _, shape, color, texture, behind = ctx.needs_input_grad
        call.rasterizer.before_backward(image_adj, alpha=call.channels == 4, shape=shape)
        image_adj = image_adj.contiguous()
        vertices_adj = empty(tuple(inputs.vertices.shape), inputs.vertices.dtype)
        attributes_adj = empty(tuple(inputs.attributes.shape), inputs.attributes.dtype) if color else None
        texels_adj = inputs.texels.new_zeros(len(shares), *inputs.texels.shape) if texture else None
        adjoints = {"image_adj": image_adj, "vertices_adj": vertices_adj, "attributes_adj": attributes_adj}
        jobs = call.jobs(inputs, image=image, kept=kept, owners=owners, **adjoints)
        for number, (share, job) in enumerate(zip(shares, jobs, strict=True)):
            share.lend(job)
            if texels_adj is not None:
                job.texels_adj = texels_adj[number].data_ptr()
        call.finish(call.kernels(inputs).backward, jobs, shares)
        if any(job.broken for job in jobs):  # vertices whose adjoint is not finite
            raise BrokenGradient("the gradient that reached the video is not finite: look at the loss")
        background_adj = None
        if behind:  # as much as each pixel lets through
            background_adj = (kept[..., :1] * image_adj[..., :3]).sum_to_size(inputs.background.shape)
        return None, vertices_adj, attributes_adj, None if texels_adj is None else texels_adj.sum(0), background_adj


def _finish(kernel: RasterKernel, job: Job, share: _Share) -> None:
    """Run a job to its last frame, making room where it asks for it."""
    while True:
        job.scratch, job.scratch_size = _workspace(job.scratch_need)
        job.list_need = 0
        kernel.run(job)
        if job.next == job.last:
            return
        if job.list_need:
            share.grow(job)


_local = threading.local()


def _workspace(need: int) -> tuple[int, int]:
    """Address and size of this thread's scratch memory, at least as large as needed."""
    size: int = getattr(_local, "size", 0)
    if size < max(need, 1):
        size = _local.size = max(FIRST_SCRATCH, need + need // 2)
        _local.memory = torch.empty(size, dtype=torch.uint8)
        _local.address = _local.memory.data_ptr()
    return _local.address, size


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gradsim-render")
