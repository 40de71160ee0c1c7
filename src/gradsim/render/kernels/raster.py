"""Kernels that pass a job to a native rasterizer, whose implementation is a header in native/.

The cost of a pixel varies too much for one thread per pixel on a CPU, so a launch is a single thread that processes the
frames of its job. Several jobs run on several threads of the machine.
"""

import ctypes
import functools
import threading
from pathlib import Path
from typing import Any

import warp as wp

from gradsim.native import kernel_module, scalar_name
from gradsim.native.loading import load_on_cpu
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


@functools.cache
def raster_kernel(
    header: Path, options: tuple[str, ...], saved: tuple[str, ...], real: Any, attribute_count: int, direction: str
) -> RasterKernel:
    """Returns a kernel of a rasterizer, compiled and loaded; each has a module of its own.

    Args:
        header: Defines `<stem>_forward<T, A>(RasterJob<T>&)` and `<stem>_backward<T, A>(RasterJob<T>&)`.
        options: Names of the options: `job.options[<stem>_option::name]` in C++.
        saved: Names of the values saved for each pixel: columns `<stem>_saved::name` of `job.saved` in C++.
        real: Warp scalar type, T.
        attribute_count: Attributes of a corner, A.
        direction: "forward" or "backward".
    """
    stem, scalar = header.stem, scalar_name(real)
    own = (Enumeration(f"{stem}_option", options), Enumeration(f"{stem}_saved", saved))
    definitions = (RASTER_JOB, ATTRIBUTE, ATTRIBUTE_COUNT, EDGE, TEXTURE, TILE, *own)
    name = f"{stem}{attribute_count}_{direction}"
    module = kernel_module(name, real, NATIVE / "frame.h", header, definitions=definitions)

    @wp.func_native(f"gradsim::{stem}_{direction}<{scalar}, {attribute_count}>(*(gradsim::RasterJob<{scalar}>*)job);")
    def draw(job: wp.uint64): ...

    @wp.kernel(enable_backward=False, module=module)
    def raster(job: wp.uint64):
        draw(job)

    load_on_cpu(module)
    return RasterKernel(raster)
