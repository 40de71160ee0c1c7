"""Execution of raster jobs over all frames, on several threads.

Threads take chunks of frames from a shared counter. Sums over frames, the gradient of texels, are accumulated per
chunk. Chunks do not depend on the number of threads, so neither do the results, to the last bit.
"""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from gradsim import bridge
from gradsim.forks import after_fork
from gradsim.render.job import RASTER_JOB
from gradsim.render.kernels.raster import RasterKernel
from gradsim.render.memory import empty
from gradsim.render.triangles import Connectivity

FIRST_SCRATCH = 1 << 20  # [bytes]
LAUNCH_TIME = 0.2  # about that of the frames of one launch, after which Python handles an interrupt [s]
PIXEL_TIME, FACE_TIME = 1e-7, 2e-6  # about those of a frame [s]


class Inputs(NamedTuple):
    """Contiguous tensors of `Triangles`; attributes may have stride 0 over frames."""

    vertices: torch.Tensor
    attributes: torch.Tensor
    texels: torch.Tensor
    background: torch.Tensor


class JobTemplate:
    """The fields of a job that do not change between calls with one mesh, camera range and image size."""

    def __init__(self, mesh: Connectivity, options: tuple[float, ...], near: float, size: tuple[int, int, int]):
        height, width, channels = size
        arrays = ("faces", "corners", "edges", "two_sided", "face_textures", "textures")
        self.mesh, self.options = mesh, (ctypes.c_double * len(options))(*options)  # keep the memory alive
        self.list_length = 8 * (height + width)  # of a frame: an estimate, raised to the longest list so far
        self.job = RASTER_JOB(
            height=height,
            width=width,
            channels=channels,
            face_count=len(mesh.faces),
            edge_count=len(mesh.edges),
            near=near,
            options=ctypes.addressof(self.options),
            **{name: getattr(mesh, name).data_ptr() for name in arrays},
        )

    def create(self, inputs: Inputs, lists: FrameLists, **buffers: torch.Tensor | None) -> Any:
        """Returns a job for some inputs.

        Args:
            inputs: Tensors to read.
            lists: Memory for the lists of frames.
            buffers: Other tensors, by field of the job.
        """
        vertices, attributes, texels, background = inputs
        job = RASTER_JOB.ctype.from_buffer_copy(self.job)
        job.frame_count, job.vertex_count = vertices.shape[:2]
        job.chunk_count = job.frame_count
        job.corner_count, job.attribute_count = attributes.shape[1:]
        job.drawn_frame = -1
        job.attribute_stride = attributes.stride(0)
        job.background_frame_stride = background.stride(0) if background.shape[0] > 1 else 0
        job.background_pixel_stride = 3 if background.shape[1:3] != (1, 1) else 0
        job.vertices, job.attributes = vertices.data_ptr(), attributes.data_ptr()
        job.texels, job.background = texels.data_ptr(), background.data_ptr()
        job.texel_count = len(texels)
        job.lists = lists.addresses.data_ptr()
        for name, tensor in buffers.items():
            if tensor is not None:
                setattr(job, name, tensor.data_ptr())
        return job


job_template = lru_cache(maxsize=64)(JobTemplate)


class FrameLists:
    """Integers of varying number that each frame saves for its backward pass, in blocks of memory."""

    def __init__(self, template: JobTemplate, frames: int):
        self.template = template
        self.addresses = torch.empty(frames, dtype=torch.int64)  # of each frame's list
        self._blocks: list[torch.Tensor] = []

    @property
    def nbytes(self) -> int:
        return self.addresses.nbytes + sum(block.nbytes for block in self._blocks)

    def extend(self, job: Any, frames: int) -> None:
        """Allocates memory for the lists of some more frames, at least for the one that the job could not finish."""
        self.template.list_length = length = max(self.template.list_length, job.list_needed)
        block = empty((length * frames,), torch.int32)
        self._blocks.append(block)
        job.list, job.list_size, job.list_needed = block.data_ptr(), len(block), 0


def run(kernel: RasterKernel, job: Any, lists: FrameLists, threads: int) -> bool:
    """Runs a job over all its frames and returns whether all adjoints of vertices are finite."""
    chunks_taken = ctypes.c_int64(0)
    job.chunks_taken = ctypes.addressof(chunks_taken)
    count = min(threads, job.chunk_count)
    jobs = [job, *(RASTER_JOB.ctype.from_buffer_copy(job) for _ in range(1, count))]
    frame_time = PIXEL_TIME * job.height * job.width + FACE_TIME * job.face_count
    launch_frames = max(1, int(LAUNCH_TIME / frame_time))

    def run_one(own: Any) -> None:
        while True:  # the kernel returns early when a frame needs more memory, or after some frames
            own.frames_left = launch_frames
            if own.list_needed:
                lists.extend(own, max(1, 1 + (own.frame_count - chunks_taken.value) // count))
            own.scratch, own.scratch_size = _scratch(own.scratch_needed)
            kernel.run(own)
            if own.next_frame == own.chunk_end:
                return

    with bridge.graph_lock:
        running = [_pool(threads).submit(run_one, own) for own in jobs[1:]]
        try:
            run_one(job)
        except BaseException:
            chunks_taken.value = job.chunk_count  # the other threads end
            raise
        finally:
            for future in running:
                future.result()
    return not any(own.non_finite for own in jobs)


_local = threading.local()


def _scratch(needed: int) -> tuple[int, int]:
    """Address and size of this thread's scratch memory, which has at least `needed` bytes."""
    size: int = getattr(_local, "size", 0)
    if size < max(needed, 1):
        size = _local.size = max(FIRST_SCRATCH, needed + needed // 2)
        _local.memory = torch.empty(size, dtype=torch.uint8)
        _local.address = _local.memory.data_ptr()
    return _local.address, size


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="gradsim-render")


after_fork(_pool.cache_clear)
