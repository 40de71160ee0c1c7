"""Triangles to images by a rasterizer, forward and backward, as one differentiable function over all frames.

Threads take frames as they come free. What frames add up, the gradient of texels, is added up over pieces of several
frames; these do not depend on the number of threads, so neither do the results, to the last bit.
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
from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import BrokenGradient

PIECES = 16  # of the frames, each with a gradient of the texels
SPARE_ROWS, SPARE = 3, 64  # integers behind the owners: native code reads tiles that reach over the last pixel
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
        texels = _no_texels(triangles.attributes.dtype, triangles.attributes.device)
    call = _Call(rasterizer, triangles.connectivity, triangles.near, size, alpha)
    return _Raster.apply(call, triangles.vertices, triangles.attributes, texels, triangles.background)


@cache
def _no_texels(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # it may meet a gradient later
        return torch.zeros(0, 3, dtype=dtype, device=device)


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
        self.rasterizer = rasterizer
        (self.height, self.width), self.channels = size, 4 if alpha else 3
        self.kind = _kind(connectivity, rasterizer.options, near, (self.height, self.width, self.channels))
        self.threads = torch.get_num_threads()

    def job(self, inputs: _Inputs, lists: _Lists, **buffers: torch.Tensor | None) -> Job:
        vertices, attributes, texels, background = inputs
        job = Job.from_buffer_copy(self.kind.blank)
        job.frame_count, job.vertex_count = vertices.shape[:2]
        job.piece_count = job.frame_count
        job.corner_count = attributes.shape[1]
        job.attribute_stride = attributes.stride(0)
        job.background_frame_stride = background.stride(0) if background.shape[0] > 1 else 0
        job.background_pixel_stride = 3 if background.shape[1:3] != (1, 1) else 0
        job.vertices, job.attributes = vertices.data_ptr(), attributes.data_ptr()
        job.texels, job.background = texels.data_ptr(), background.data_ptr()
        job.texel_count = len(texels)
        job.lists = lists.places.data_ptr()
        for name, tensor in buffers.items():
            if tensor is not None:
                setattr(job, name, tensor.data_ptr())
        return job

    def kernels(self, inputs: _Inputs) -> RasterKernels:
        bridge.initialize()
        real = bridge.real_type(inputs.vertices.dtype)
        return raster_kernels(self.rasterizer.stem, real, inputs.attributes.shape[-1])

    def finish(self, kernel: RasterKernel, job: Job, lists: _Lists) -> bool:
        """Run a job over all frames; whether all adjoints are finite."""
        taken = ctypes.c_int64(0)
        job.taken = ctypes.addressof(taken)
        count = min(self.threads, job.piece_count)
        jobs = [job, *(Job.from_buffer_copy(job) for _ in range(1, count))]

        def work(own: Job) -> None:
            while True:  # until there is room for every frame
                if own.list_need:
                    lists.make_room(own, max(1, 1 + (own.frame_count - taken.value) // count))
                own.scratch, own.scratch_size = _workspace(own.scratch_need)
                kernel.run(own)
                if own.next == own.last:
                    return

        with bridge.running:
            running = [_pool(self.threads).submit(work, own) for own in jobs[1:]]
            try:
                work(job)
            finally:
                for helper in running:
                    helper.result()
        return not any(own.broken for own in jobs)


class _Kind:
    """What calls for pictures of one mesh in one size have in common."""

    def __init__(self, mesh: Connectivity, options: tuple[float, ...], near: float, size: tuple[int, int, int]):
        height, width, channels = size
        self.mesh = mesh  # whose memory the job refers to
        self.list_length = 8 * (height + width)  # of a frame, at most as far as is known
        self.blank = Job(
            height=height,
            width=width,
            channels=channels,
            face_count=len(mesh.faces),
            edge_count=len(mesh.edges),
            near=near,
            options=(ctypes.c_double * 4)(*options),
            **{name: getattr(mesh, name).data_ptr() for name in ("faces", "corners", "edges", "marks", "textures")},
        )


_kind = lru_cache(maxsize=64)(_Kind)


class _Lists:
    """What frames leave for their backward: lists in blocks of memory, and where in these each frame has its own."""

    def __init__(self, kind: _Kind, frames: int):
        self.kind = kind
        self.places = torch.empty(frames, dtype=torch.int64)
        self._blocks: list[torch.Tensor] = []

    @property
    def nbytes(self) -> int:
        return self.places.nbytes + sum(block.nbytes for block in self._blocks)

    def make_room(self, job: Job, frames: int) -> None:
        """Room for the lists of as many frames, and at least for the one that the job could not finish."""
        self.kind.list_length = length = max(self.kind.list_length, job.list_need)
        block = empty((length * frames,), torch.int32)
        self._blocks.append(block)
        job.list, job.list_size, job.list_need = block.data_ptr(), len(block), 0


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
        if attributes.stride() != (0, attributes.shape[2], 1):  # else all frames share them
            attributes = attributes.contiguous()
        inputs = _Inputs(vertices.contiguous(), attributes, texels.contiguous(), background.contiguous())
        size = (len(vertices), call.height, call.width)
        width = call.rasterizer.kept_width
        image = empty((*size, call.channels), vertices.dtype)
        kept = empty((*size, width), vertices.dtype) if width > 1 or ctx.needs_input_grad[4] else None
        owners = empty((math.prod(size) + SPARE_ROWS * call.width + SPARE,), torch.int32)
        lists = _Lists(call.kind, len(vertices))
        job = call.job(inputs, lists, image=image, kept=kept, owners=owners)
        job.list_need = call.kind.list_length
        call.finish(call.kernels(inputs).forward, job, lists)
        ctx.call, ctx.lists = call, lists
        ctx.save_for_backward(*inputs, image, kept, owners)
        return image

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, image_adj: torch.Tensor) -> Any:
        call, lists = ctx.call, ctx.lists
        *given, image, kept, owners = ctx.saved_tensors
        inputs = _Inputs(*given)
        _, shape, color, texture, behind = ctx.needs_input_grad
        call.rasterizer.before_backward(image_adj, alpha=call.channels == 4, shape=shape)
        image_adj = image_adj.contiguous()
        vertices_adj = empty(tuple(inputs.vertices.shape), inputs.vertices.dtype)
        attributes_adj = empty(tuple(inputs.attributes.shape), inputs.attributes.dtype) if color else None
        pieces = min(PIECES, len(image)) if texture else len(image)
        texels_adj = inputs.texels.new_zeros(pieces, *inputs.texels.shape) if texture else None
        adjoints = {"vertices_adj": vertices_adj, "attributes_adj": attributes_adj, "texels_adj": texels_adj}
        job = call.job(inputs, lists, image=image, kept=kept, owners=owners, image_adj=image_adj, **adjoints)
        job.piece_count = pieces
        if not call.finish(call.kernels(inputs).backward, job, lists):
            raise BrokenGradient("the gradient that reached the video is not finite: look at the loss")
        background_adj = None
        if behind:  # as much as each pixel lets through
            background_adj = (kept[..., :1] * image_adj[..., :3]).sum_to_size(inputs.background.shape)
        return None, vertices_adj, attributes_adj, None if texels_adj is None else texels_adj.sum(0), background_adj


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
