"""The part of Rayleigh damping that belongs to the first Lamé parameter: a pressure from the rate of volume.

Rayleigh damping proportional to the stiffness is the viscous stress time (2 mu D + lam tr D) of the rate of strain D.
The part of mu is added to the damping of the strain rate of the elements. That of lam is, with the mean of dJ/dt around
a node as for smoothed tetrahedra,

    P_t = sum_a W_at V_a / V_t viscosity_a (dJ/dt)_a cof F_t

so that nearly incompressible bodies are not braked by tetrahedra that cannot deform.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft
from gradsim.scene.damping import bulk_viscosity
from gradsim.simulate.forces.family import ForceFamily, ForceKernels, types_of
from gradsim.simulate.forces.smoothed_tetrahedra import NODE_ROW, smoothed_tet_elements
from gradsim.simulate.forces.smoothing_domains import domain_volumes, domains_of, tet_means
from gradsim.simulate.forces.tet_functions import tet_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

NAME = "bulk_viscosity"
ROWS = Rows(NAME, "viscosity")  # [Pa s]


def bulk_viscosity_rate(view: "StabilityView") -> tuple[float, float]:
    largest = view.largest(view.row("viscosity") * view.array("pressure"))
    return 0.0, max(largest, 0.0) * view.node_compliance("measure")


def node_domains(topology: "Topology") -> tuple[np.ndarray, np.ndarray]:
    """Returns where the tetrahedra of each node start in a list, [N + 1], and the list."""
    domains = domains_of(topology, NAME)
    offsets = domains.offsets[domains.edge_count :]
    return (offsets - offsets[0]).astype(np.int32), domains.members[offsets[0] :]


def bulk_viscosity_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns nodes, rest shapes and volumes of the elements, then the domains within a world."""
    topology = layout.topology
    rest, volume = (layout.spread(topology.arrays[f"{NAME}.{name}"]) for name in ("rest", "volume"))
    offsets, members = node_domains(topology)
    counts = np.array([len(offsets) - 1, topology.elements[NAME]], np.int32)
    nodes, means = (
        layout.indices(NAME, "nodes", "node"),
        tet_means(domains_of(topology, NAME).split[1], topology.arrays[f"{NAME}.volume"]),
    )
    return (
        nodes,
        layout.constant(rest, "matrix"),
        layout.constant(volume),
        *map(layout.constant, (offsets, members, counts, *means)),
    )


def native_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns elements in blocks, nodes of each element, and volumes of the nodes with working memory."""
    topology, blocks = layout.topology, layout.blocks(NAME)
    lanes = layout.columns[NAME] // blocks
    domains = domains_of(topology, NAME)
    _, own = domains.split
    last = np.minimum(np.arange(blocks * lanes), len(own) - 1)
    volume = domain_volumes(own, topology.arrays[f"{NAME}.volume"])
    lists = (own[last] * NODE_ROW).reshape(blocks, lanes, 4).swapaxes(1, 2)
    means = domains.node_means
    fixed = [np.array([len(volume)]), lists.ravel(), means.offsets, means.members * NODE_ROW]
    reals = np.concatenate([1.0 / volume, means.weights, np.zeros(3 * NODE_ROW * len(volume))])
    elements = layout.element_blocks(NAME, "nodes", "rest", "volume")
    return *elements, layout.constant(np.concatenate(fixed).astype(np.int32)), layout.constant(reals)


@functools.cache
def bulk_viscosity_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    mat33, vec3s, reals, ints, table = types.mat33, types.vec3s, types.reals, types.ints, types.table
    tets, mat33s = wp.array(dtype=wp.vec4i), wp.array(dtype=mat33)
    module = kernel_module(NAME, real)
    gradient, cofactor, cofactor_gradient, _, add_stress = tet_functions(real)
    four, row = real(4.0), ROWS.viscosity

    @wp.func
    def viscosity_of(first: int, end: int, base: int, members: ints, volume: reals, values: table):
        """Volume of a node's domain and its mean viscosity."""
        total = real(0.0)
        viscosity = real(0.0)
        for m in range(first, end):
            e = base + members[m]
            total += volume[e]
            viscosity += values[row, e] * volume[e]
        return total / four, viscosity / total

    @wp.func
    def mean_rate(
        first: int, end: int, base: int, members: ints, weights: reals, nodes: tets, rest: mat33s, x: vec3s, v: vec3s
    ):
        rate = real(0.0)
        for m in range(first, end):
            e = base + members[m]
            C = cofactor(gradient(nodes[e], rest[e], x))
            rate += wp.ddot(C, gradient(nodes[e], rest[e], v)) * weights[m]
        return rate

    @wp.kernel(enable_backward=False, module=module)
    def bulk_viscosity_force(
        nodes: tets, rest: mat33s, volume: reals, offsets: ints, members: ints, counts: ints, mean_offsets: ints,
        mean_members: ints, mean_weights: reals, values: table, x: vec3s, v: vec3s, f: vec3s,
    ):  # fmt: skip
        thread = wp.tid()
        world = thread / counts[0]
        node = thread - world * counts[0]
        base = world * counts[1]
        first = mean_offsets[node]
        end = mean_offsets[node + 1]
        total, viscosity = viscosity_of(offsets[node], offsets[node + 1], base, members, volume, values)
        rate = mean_rate(first, end, base, mean_members, mean_weights, nodes, rest, x, v)
        for m in range(first, end):
            e = base + mean_members[m]
            C = cofactor(gradient(nodes[e], rest[e], x))
            add_stress(nodes[e], rest[e], C * (rate * viscosity * total * mean_weights[m]), f)

    @wp.kernel(enable_backward=False, module=module)
    def bulk_viscosity_force_adjoint(
        nodes: tets, rest: mat33s, volume: reals, offsets: ints, members: ints, counts: ints, mean_offsets: ints,
        mean_members: ints, mean_weights: reals, values: table, x: vec3s, v: vec3s, f_adj: vec3s, values_adj: table,
        x_adj: vec3s, v_adj: vec3s,
    ):  # fmt: skip
        thread = wp.tid()
        world = thread / counts[0]
        node = thread - world * counts[0]
        base = world * counts[1]
        first = mean_offsets[node]
        end = mean_offsets[node + 1]
        total, viscosity = viscosity_of(offsets[node], offsets[node + 1], base, members, volume, values)
        rate = mean_rate(first, end, base, mean_members, mean_weights, nodes, rest, x, v)
        adj = real(0.0)  # adjoint of the pressure, over the volume
        for m in range(first, end):
            e = base + mean_members[m]
            own = gradient(nodes[e], rest[e], f_adj)
            adj -= wp.ddot(own, cofactor(gradient(nodes[e], rest[e], x))) * mean_weights[m]
        for m in range(first, end):
            e = base + mean_members[m]
            w = mean_weights[m] * viscosity * total
            F = gradient(nodes[e], rest[e], x)
            dF = gradient(nodes[e], rest[e], v)
            A = gradient(nodes[e], rest[e], f_adj)
            F_adj = cofactor_gradient(F, dF) * (adj * w) - cofactor_gradient(F, A) * (rate * w)
            add_stress(nodes[e], rest[e], -F_adj, x_adj)
            add_stress(nodes[e], rest[e], cofactor(F) * (-adj * w), v_adj)
        for m in range(offsets[node], offsets[node + 1]):
            e = base + members[m]
            wp.atomic_add(values_adj, row, e, adj * rate * volume[e] / four)

    return ForceKernels(bulk_viscosity_force, bulk_viscosity_force_adjoint)


BULK_VISCOSITY = ForceFamily(
    name=NAME,
    rows=ROWS,
    owners=(Soft,),
    elements=smoothed_tet_elements,
    parameters={"viscosity": bulk_viscosity},
    present=lambda body, scene: body.rayleigh is not None and body.rayleigh.has_stiffness,
    kernels=bulk_viscosity_kernels,
    arrays=bulk_viscosity_arrays,
    threads=lambda topology: len(node_domains(topology)[0]) - 1,
    native="bulk_viscosity.h",
    per_world=True,
    native_arrays=native_arrays,
    stable_rate=bulk_viscosity_rate,
    reason="damping",
)
