"""Kernels that hand a job to native code: the rasterizers themselves stand in native/*.h.

A pixel's work varies too much for one thread a pixel to pay on a CPU, so a launch is one thread that goes through the
frames of its job; several jobs run on several threads of the machine.
"""

import ctypes
import functools
import threading
from pathlib import Path
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module, scalar_name
from gradsim.render.job import Job

NATIVE = Path(__file__).parent / "native"


class RasterKernel:
    """A kernel whose launch each thread records once: recorded ones start in a fraction of the time."""

    def __init__(self, kernel: Any):
        self._kernel, self._local = kernel, threading.local()

    def run(self, job: Job) -> None:
        local, size = self._local, ctypes.sizeof(Job)
        if not hasattr(local, "launch"):
            local.job = Job()
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
def raster_kernels(stem: str, real: Any, attribute_count: int) -> RasterKernels:
    """The rasterizer of native/<stem>.h for a precision and a number of attributes, compiled and loaded."""
    scalar = scalar_name(real)
    module = kernel_module(f"{stem}{attribute_count}", real, NATIVE / f"{stem}.h")

    @wp.func_native(f"gradsim::{stem}_forward<{scalar}, {attribute_count}>(*(gradsim::Job<{scalar}>*)job);")
    def forward(job: wp.uint64): ...

    @wp.func_native(f"gradsim::{stem}_backward<{scalar}, {attribute_count}>(*(gradsim::Job<{scalar}>*)job);")
    def backward(job: wp.uint64): ...

    @wp.kernel(enable_backward=False, module=module)
    def raster_forward(job: wp.uint64):
        forward(job)

    @wp.kernel(enable_backward=False, module=module)
    def raster_backward(job: wp.uint64):
        backward(job)

    wp.load_module(module, device="cpu")
    return RasterKernels(RasterKernel(raster_forward), RasterKernel(raster_backward))
