"""Compilation of kernels: one Warp module for each kernel file and precision, with the C++ it needs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import warp as wp

from gradsim.kernel_cache import check_space

SHARED = Path(__file__).parent  # headers that kernels of several packages include


class Definition(Protocol):
    """Something declared in Python that C++ needs too; see `structures`."""

    def cpp(self) -> str: ...


def scalar_name(real: Any) -> str:
    """C++ name of a Warp scalar type."""
    return "float" if real is wp.float32 else "double"


def kernel_module(stem: str, real: Any, *headers: Path, definitions: Iterable[Definition] = ()) -> Any:
    """Returns the Warp module that `stem` compiles into: one per file and precision.

    A scene so builds only the modules it needs.

    Args:
        stem: Name of the kernel file.
        real: Warp scalar type.
        headers: C++ headers that the module's native functions call; each may include others of its folder.
        definitions: Shared structures and enumerations, placed in front of the headers.
    """
    name = f"gradsim.{stem}.{scalar_name(real)}"
    if wp.config.kernel_cache_dir:
        check_space(Path(wp.config.kernel_cache_dir), name)
    module = wp.get_module(name)
    if headers:
        folders = list(dict.fromkeys((*(header.parent for header in headers), SHARED)))
        generated = "\n".join(definition.cpp() for definition in definitions)
        includes = "\n".join(f'#include "{header.name}"' for header in headers)
        module.options["extra_build_options"] = wp.ModuleBuildOptions(
            extra_cpu_include_dirs=folders,
            extra_cpu_preamble=f"namespace gradsim {{\n{generated}\n}}  // namespace gradsim\n{includes}\n",
            extra_build_dependencies=[header for folder in folders for header in sorted(folder.glob("*.h"))],
        )
    return module
