"""How every force is launched: one argument order, one pair of functions.

A force kernel reads fixed arrays, its parameters and the state, and adds to the nodes' forces:

    kernel(*constants, *parameters, x, v, f)

Its adjoint reads the adjoint of the forces and adds to the adjoints of parameters and state. A hand-written adjoint has
the arguments

    adjoint(*constants, *parameters, x, v, f_adj, *parameters_adj, x_adj, v_adj)

and where there is none Warp's own reverse mode is used.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import scalar_name

NATIVE = Path(__file__).parent / "native"


class Types(NamedTuple):
    """Warp's scalar, vector, matrix and array types of one precision; `name` is the C++ scalar."""

    real: Any
    vec3: Any
    mat22: Any
    mat33: Any
    vec3s: Any  # array of vectors
    reals: Any  # array of scalars
    table: Any  # array of scalars, [parameters, elements]
    name: str


@functools.cache
def types_of(real: Any) -> Types:
    vec3 = wp.types.vector(3, real)
    return Types(
        real=real,
        vec3=vec3,
        mat22=wp.types.matrix((2, 2), real),
        mat33=wp.types.matrix((3, 3), real),
        vec3s=wp.array(dtype=vec3),
        reals=wp.array(dtype=real),
        table=wp.array(dtype=real, ndim=2),
        name=scalar_name(real),
    )


class ForceKernels(NamedTuple):
    force: Any
    adjoint: Any | None = None  # None: Warp differentiates `force`


@dataclass(frozen=True)
class Force:
    """One kind of force over all worlds: its kernels, how many threads they take, and what they read."""

    kernels: ForceKernels
    threads: int
    constants: tuple[Any, ...]  # arrays fixed by the topology
    parameters: tuple[Any, ...]  # tables with .value and .grad, [parameters, elements]


def add_forces(force: Force, x: Any, v: Any, f: Any) -> None:
    inputs = [*force.constants, *(p.value for p in force.parameters), x, v]
    wp.launch(force.kernels.force, force.threads, inputs=inputs, outputs=[f], device=f.device)


def add_force_adjoints(force: Force, x: Any, v: Any, f: Any, f_adj: Any, x_adj: Any, v_adj: Any) -> None:
    inputs = [*force.constants, *(p.value for p in force.parameters), x, v]
    outputs_adj = [*(p.grad for p in force.parameters), x_adj, v_adj]
    if force.kernels.adjoint is not None:
        inputs.append(f_adj)
        wp.launch(force.kernels.adjoint, force.threads, inputs=inputs, outputs=outputs_adj, device=f.device)
    else:
        wp.launch(
            force.kernels.force,
            force.threads,
            inputs=inputs,
            outputs=[f],
            adj_inputs=[*([None] * len(force.constants)), *outputs_adj],
            adj_outputs=[f_adj],
            adjoint=True,
            device=f.device,
        )


def lane_count(real: Any) -> int:
    """Elements a native kernel handles at once: a cache line of scalars."""
    return 16 if real is wp.float32 else 8
