"""How kernels are compiled: one Warp module for each kernel file and precision, with the C++ headers it needs."""

from pathlib import Path
from typing import Any

import warp as wp

SHARED = Path(__file__).parent  # headers that kernels of several rooms include


def scalar_name(real: Any) -> str:
    """What C++ calls a Warp scalar type."""
    return "float" if real is wp.float32 else "double"


def kernel_module(stem: str, real: Any, header: Path | None = None) -> Any:
    """The Warp module `stem` compiles into: one a file and precision, so that a scene builds only what it needs.

    Args:
        stem: Name of the kernel file.
        real: Warp scalar type.
        header: C++ header that the module's native functions call; it may include others of its folder.
    """
    module = wp.get_module(f"gradsim.{stem}.{scalar_name(real)}")
    if header is not None:
        module.options["extra_build_options"] = wp.ModuleBuildOptions(
            extra_cpu_include_dirs=[header.parent, SHARED],
            extra_cpu_preamble=f'#include "{header.name}"\n',
            extra_build_dependencies=[*sorted(header.parent.glob("*.h")), *sorted(SHARED.glob("*.h"))],
        )
    return module
