"""Kernels that hand a job to native code: the rasterizers themselves stand in native/*.h.

A pixel's work varies too much for one thread a pixel to pay on a CPU, so a launch is one thread that goes through the
frames of its job; several jobs run on several threads of the machine.
"""

import ctypes
import functools
from pathlib import Path
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module, scalar_name

NATIVE = Path(__file__).parent / "native"


class RasterKernels(NamedTuple):
    forward: Any
    backward: Any


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
    return RasterKernels(raster_forward, raster_backward)


def run(kernel: Any, job: ctypes.Structure) -> None:
    wp.launch(kernel, 1, inputs=[ctypes.addressof(job)], device="cpu")
