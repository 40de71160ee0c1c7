"""Kernels that pass a job to a native rasterizer, whose implementation is a header in native/.

The cost of a pixel varies too much for one thread per pixel on a CPU, so a launch is a single thread that processes the
frames of its job. Several jobs run on several threads of the machine.
"""

import ctypes
import functools
import threading
from pathlib import Path
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module, scalar_name
from gradsim.native.structures import Enumeration
from gradsim.render.job import ATTRIBUTE, ATTRIBUTE_COUNT, EDGE, RASTER_JOB, TEXTURE, TILE

NATIVE = Path(__file__).parent / "native"


class RasterKernel:
    """A kernel whose launch is recorded once per thread: recorded launches start in a fraction of the time."""

    def __init__(self, kernel: Any):
        self._kernel, self._local = kernel, threading.local()

    def run(self, job: Any) -> None:
        local, size = self._local, RASTER_JOB.size
        if not hasattr(local, "launch"):
            local.job = RASTER_JOB()
            local.address = ctypes.addressof(local.job)
            local.launch = wp.launch(self._kernel, 1, inputs=[local.address], device="cpu", record_cmd=True)
        address = ctypes.addressof(job)
        ctypes.memmove(local.address, address, size)
        local.launch.launch()
        ctypes.memmove(address, local.address, size)


class RasterKernels(NamedTuple):
    forward: RasterKernel
    backward: RasterKernel


@functools.cache
def raster_kernels(
    header: Path, options: tuple[str, ...], saved: tuple[str, ...], real: Any, attribute_count: int
) -> RasterKernels:
    """Returns the kernels of a rasterizer, compiled and loaded.

    Args:
        header: Defines `<stem>_forward<T, A>(RasterJob<T>&)` and `<stem>_backward<T, A>(RasterJob<T>&)`.
        options: Names of the options: `job.options[<stem>_option::name]` in C++.
        saved: Names of the values saved for each pixel: columns `<stem>_saved::name` of `job.saved` in C++.
        real: Warp scalar type, T.
        attribute_count: Attributes of a corner, A.
    """
    stem, scalar = header.stem, scalar_name(real)
    own = (Enumeration(f"{stem}_option", options), Enumeration(f"{stem}_saved", saved))
    definitions = (RASTER_JOB, ATTRIBUTE, ATTRIBUTE_COUNT, EDGE, TEXTURE, TILE, *own)
    module = kernel_module(f"{stem}{attribute_count}", real, NATIVE / "frame.h", header, definitions=definitions)

    @wp.func_native(f"gradsim::{stem}_forward<{scalar}, {attribute_count}>(*(gradsim::RasterJob<{scalar}>*)job);")
    def forward(job: wp.uint64): ...

    @wp.func_native(f"gradsim::{stem}_backward<{scalar}, {attribute_count}>(*(gradsim::RasterJob<{scalar}>*)job);")
    def backward(job: wp.uint64): ...

    @wp.kernel(enable_backward=False, module=module)
    def raster_forward(job: wp.uint64):
        forward(job)

    @wp.kernel(enable_backward=False, module=module)
    def raster_backward(job: wp.uint64):
        backward(job)

    wp.load_module(module, device="cpu")
    return RasterKernels(RasterKernel(raster_forward), RasterKernel(raster_backward))
