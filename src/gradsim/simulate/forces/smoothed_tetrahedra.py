"""Smoothed tetrahedra: shear from deformation gradients averaged over edges, pressure from volumes averaged over nodes.

The smoothing domain of an edge is a sixth of the volume of each of its tetrahedra, that of a node a quarter. F_e is the
mean deformation gradient of an edge, weighted by volume. J_a is the mean change of volume of a node, averaged a second
time over the nodes around it (`smoothing_domains.py`). The energy is that of `tetrahedra.py` with mu and lam_e on the
edges, and (lam - lam_e)/2 (J_a - 1 - actuation)^2 on the nodes. At small strain lam_e = 11/8 mu stands for a Lamé
parameter equal to the shear modulus: edges have a Poisson's ratio of 1/4, and nodes what a larger one adds. A
homogeneous deformation so has the stress of linear tetrahedra, which is then

    P_t = 1/6 sum_e P(F_e; mu, lam_e) + 1/4 sum_a p_a cof F_t

for the six edges and four nodes of a tetrahedron, where p_a is the second average of (lam - lam_e) (J_a - 1 -
actuation): it is symmetric, so that it is its own transpose. Parameters that differ between elements are averaged over
domains, products with the actuation before the average. Damping acts on the strain rate of the edges; Rayleigh damping
adds bulk_damping F tr(F' dF/dt) there, and `bulk_viscosity.py` on the nodes.

(Liu and Nguyen-Thoi, Smoothed Finite Element Methods, 2010; Ong, Heaney, Lee, Liu and Nguyen-Xuan 2015.)
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft
from gradsim.scene.damping import edge_bulk_damping
from gradsim.scene.elements import SmoothedTet
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, types_of
from gradsim.simulate.forces.smoothing_domains import domain_stretches, domain_volumes, domains_of, tet_means
from gradsim.simulate.forces.smoothing_order import TOGETHER, SmoothingOrder, smoothing_order
from gradsim.simulate.forces.tet_functions import tet_functions
from gradsim.simulate.forces.tetrahedra import PARAMETERS, tet_shapes

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

NAME = "smoothed_tet"
ROWS = Rows(NAME, "mu", "lam", "damping", "actuation", "bulk_damping")  # [Pa], [Pa], [Pa s], [1], [Pa s]
# Numbers of rows of working memory, as in `native/smoothing_domains.h`
TET_ROW, EDGE_ROW, NODE_ROW, SAVED, EDGE_MEANS, NODE_MEANS, EDGE_SUMS = 29, 22, 4, 27, 4, 2, 2
EDGE_LAM = 1.375  # of mu: that part of lam stays with the edges


def smoothed_tet_elements(body: Soft, place: "Placement") -> Elements:
    mesh = body.mesh
    rest, volume = tet_shapes(mesh), mesh.volumes
    arrays = {"nodes": mesh.tets + place.first("node", body), "rest": rest, "volume": volume}
    return Elements(len(mesh.tets), arrays | domain_stretches(mesh.tets, rest, volume))


def smoothed_tet_rate(view: "StabilityView") -> tuple[float, float]:
    compliance = view.node_compliance("measure")  # 1 / density
    shear, dilation, pressure = (view.array(name) for name in ("shear", "dilation", "pressure"))
    mu, lam = view.row("mu"), view.row("lam")
    bulk = np.maximum(lam - EDGE_LAM * mu, 0.0)
    stiffness = view.largest(mu * (1.5 * shear + (EDGE_LAM - 0.625) * dilation)) + view.largest(bulk * pressure)
    damping = view.largest(view.row("damping") * shear + view.row("bulk_damping") * dilation)
    return stiffness * compliance, damping * compliance


def smoothed_tet_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns nodes, rest shapes and volumes of the elements, then the domains within a world."""
    topology = layout.topology
    domains = domains_of(topology, NAME)
    rest, volume = (layout.spread(topology.arrays[f"{NAME}.{name}"]) for name in ("rest", "volume"))
    means = tet_means(domains.split[1], topology.arrays[f"{NAME}.volume"])
    counts = np.array([len(domains.offsets) - 1, domains.edge_count, topology.elements[NAME]], np.int32)
    return (
        layout.indices(NAME, "nodes", "node"),
        layout.constant(rest, "matrix"),
        layout.constant(volume),
        *map(layout.constant, (domains.offsets, domains.members, counts, *means)),
    )


def native_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns elements in blocks, the order of the domains, and numbers of the domains with working memory."""
    topology, blocks = layout.topology, layout.blocks(NAME)
    lanes = layout.columns[NAME] // blocks
    domains = domains_of(topology, NAME)
    plan = topology.constant(("smoothing order", lanes), lambda: smoothing_order(domains, lanes, blocks))
    edges, nodes, neighbours = (
        -(-len(own) // lanes) * lanes for own in (plan.edge_order, plan.node_order, plan.node_lists.weights)
    )
    per_edge, per_node = (
        1.0 / domain_volumes(own, topology.arrays[f"{NAME}.volume"])[order]
        for own, order in zip(domains.split, (plan.edge_order, plan.node_order), strict=True)
    )
    known = (_filled(per_edge, edges), _filled(per_node, nodes), _filled(plan.node_lists.weights, neighbours))
    memory = _working_memory(plan, lanes, blocks, edges, nodes)
    elements = layout.element_blocks(NAME, "nodes", "rest", "volume")
    order = layout.constant(_native_order(plan, lanes, edges, nodes, neighbours))
    return *elements, order, layout.constant(np.concatenate([*known, np.zeros(memory)]))


def _native_order(plan: SmoothingOrder, lanes: int, edges: int, nodes: int, neighbours: int) -> np.ndarray:
    """Returns the integers of `native/smoothing_domains.h`; edges, nodes and neighbours fill whole blocks."""
    tet_stride, edge_stride = (-(-numbers // lanes) * lanes for numbers in (TET_ROW, EDGE_ROW))
    lists = plan.node_lists
    parts: tuple[Any, ...] = (
        (len(plan.ends), *plan.slots, edges, nodes, neighbours),
        plan.ends,
        plan.tet_slots * lanes * tet_stride,
        plan.saved_slots * lanes * SAVED,
        plan.edge_slots * lanes * edge_stride,
        plan.tet_edges * edge_stride,
        plan.tet_nodes * NODE_ROW,
        plan.first,
        plan.spans,
        *(_filled(own, nodes // TOGETHER) for own in (lists.first, lists.spans)),
        *(_filled(own, neighbours) for own in (lists.neighbours * NODE_ROW, lists.incident)),
        plan.members * tet_stride,
    )
    return np.concatenate([np.ravel(part) for part in parts]).astype(np.int32)


def _working_memory(plan: SmoothingOrder, lanes: int, blocks: int, edges: int, nodes: int) -> int:
    """Returns the scalars of the rows, sums and means, and of the parameters that these belong to."""
    tet_stride, edge_stride = (-(-numbers // lanes) * lanes for numbers in (TET_ROW, EDGE_ROW))
    tet_slots, saved_slots, edge_slots = plan.slots
    rows = ((tet_slots + 1) * tet_stride + saved_slots * SAVED + edge_slots * edge_stride) * lanes
    sums = (edges + lanes) * EDGE_SUMS + nodes * 3 * NODE_ROW
    return rows + sums + blocks * lanes * len(ROWS) + edges * EDGE_MEANS + nodes * NODE_MEANS


def _filled(numbers: np.ndarray, count: int) -> np.ndarray:
    """Returns numbers with zeros after them."""
    return np.pad(numbers, (0, count - len(numbers)))


@functools.cache
def smoothed_tet_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    mat33, vec3s, reals, ints, table = types.mat33, types.vec3s, types.reals, types.ints, types.table
    tets, mat33s = wp.array(dtype=wp.vec4i), wp.array(dtype=mat33)
    module = kernel_module("smoothed_tetrahedra", real)
    one, half, four, six, share = (real(a) for a in (1.0, 0.5, 4.0, 6.0, EDGE_LAM))
    MU, LAM, DAMPING, ACTUATION, BULK_DAMPING = (getattr(ROWS, name) for name in ROWS.names)

    gradient, cofactor, cofactor_gradient, determinant, add_stress = tet_functions(real)

    @wp.struct
    class EdgeMean:
        F: mat33
        dF: mat33
        mu: real
        damping: real
        bulk_damping: real
        active: real  # mean of mu times actuation
        total: real  # volume of the tetrahedra

    @wp.struct
    class NodeMean:
        bulk: real
        active: real  # mean of bulk modulus times actuation
        total: real

    @wp.func
    def sym(A: mat33, B: mat33):
        product = wp.transpose(A) * B
        return (product + wp.transpose(product)) * half

    @wp.func
    def edge_mean(
        first: int, end: int, base: int, members: ints, nodes: tets, rest: mat33s, volume: reals, values: table,
        x: vec3s, v: vec3s,
    ):  # fmt: skip
        mean = EdgeMean()
        for m in range(first, end):
            e = base + members[m]
            w = volume[e]
            mean.total += w
            mean.F += gradient(nodes[e], rest[e], x) * w
            mean.dF += gradient(nodes[e], rest[e], v) * w
            mean.mu += values[MU, e] * w
            mean.damping += values[DAMPING, e] * w
            mean.bulk_damping += values[BULK_DAMPING, e] * w
            mean.active += values[MU, e] * values[ACTUATION, e] * w
        per = one / mean.total
        mean.F = mean.F * per
        mean.dF = mean.dF * per
        mean.mu = mean.mu * per
        mean.damping = mean.damping * per
        mean.bulk_damping = mean.bulk_damping * per
        mean.active = mean.active * per
        return mean

    @wp.func
    def node_mean(first: int, end: int, base: int, members: ints, volume: reals, values: table):
        mean = NodeMean()
        for m in range(first, end):
            e = base + members[m]
            w = volume[e]
            own = values[LAM, e] - share * values[MU, e]
            mean.total += w
            mean.bulk += own * w
            mean.active += own * values[ACTUATION, e] * w
        per = one / mean.total
        mean.bulk = mean.bulk * per
        mean.active = mean.active * per
        return mean

    @wp.func
    def volume_change(
        first: int, end: int, base: int, members: ints, weights: reals, nodes: tets, rest: mat33s, x: vec3s
    ):
        J = real(0.0)
        for m in range(first, end):
            e = base + members[m]
            J += determinant(gradient(nodes[e], rest[e], x)) * weights[m]
        return J

    @wp.func
    def edge_pressure(mean: EdgeMean):
        return share * (mean.mu * (determinant(mean.F) - one) - mean.active) - real(0.75) * mean.mu

    @wp.func
    def edge_stress(mean: EdgeMean):
        shear = mean.mu * (one - one / (wp.ddot(mean.F, mean.F) + one))
        rate = sym(mean.F, mean.dF)
        elastic = mean.F * shear + cofactor(mean.F) * edge_pressure(mean)
        return elastic + mean.F * rate * mean.damping + mean.F * (mean.bulk_damping * wp.trace(rate))

    @wp.kernel(enable_backward=False, module=module)
    def smoothed_tet_force(
        nodes: tets, rest: mat33s, volume: reals, offsets: ints, members: ints, counts: ints, mean_offsets: ints,
        mean_members: ints, mean_weights: reals, values: table, x: vec3s, v: vec3s, f: vec3s,
    ):  # fmt: skip
        thread = wp.tid()
        world = thread / counts[0]
        domain = thread - world * counts[0]
        base = world * counts[2]
        first = offsets[domain]
        end = offsets[domain + 1]
        if domain < counts[1]:
            P = edge_stress(edge_mean(first, end, base, members, nodes, rest, volume, values, x, v))
            for m in range(first, end):
                e = base + members[m]
                add_stress(nodes[e], rest[e], P * (volume[e] / six), f)
        else:
            mean = node_mean(first, end, base, members, volume, values)
            first = mean_offsets[domain - counts[1]]
            end = mean_offsets[domain - counts[1] + 1]
            J = volume_change(first, end, base, mean_members, mean_weights, nodes, rest, x)
            pressure = (mean.bulk * (J - one) - mean.active) * mean.total / four
            for m in range(first, end):
                e = base + mean_members[m]
                C = cofactor(gradient(nodes[e], rest[e], x))
                add_stress(nodes[e], rest[e], C * (pressure * mean_weights[m]), f)

    @wp.kernel(enable_backward=False, module=module)
    def smoothed_tet_force_adjoint(
        nodes: tets, rest: mat33s, volume: reals, offsets: ints, members: ints, counts: ints, mean_offsets: ints,
        mean_members: ints, mean_weights: reals, values: table, x: vec3s, v: vec3s, f_adj: vec3s, values_adj: table,
        x_adj: vec3s, v_adj: vec3s,
    ):  # fmt: skip
        thread = wp.tid()
        world = thread / counts[0]
        domain = thread - world * counts[0]
        base = world * counts[2]
        first = offsets[domain]
        end = offsets[domain + 1]
        if domain < counts[1]:
            mean = edge_mean(first, end, base, members, nodes, rest, volume, values, x, v)
            A = mat33()  # adjoint of the stress
            for m in range(first, end):
                e = base + members[m]
                A -= gradient(nodes[e], rest[e], f_adj) * (volume[e] / six)
            F = mean.F
            C = cofactor(F)
            r = one / (wp.ddot(F, F) + one)
            AF = wp.ddot(A, F)
            AC = wp.ddot(A, C)
            E = sym(F, mean.dF)
            S = sym(F, A)
            F_adj = A * (mean.mu * (one - r)) + F * (real(2.0) * mean.mu * AF * r * r) + C * (share * mean.mu * AC)
            F_adj += cofactor_gradient(F, A) * edge_pressure(mean) + (A * E + mean.dF * S) * mean.damping
            F_adj += (A * wp.trace(E) + mean.dF * AF) * mean.bulk_damping
            dF_adj = F * S * mean.damping + F * (AF * mean.bulk_damping)
            mu_adj = (one - r) * AF + (share * (determinant(F) - one) - real(0.75)) * AC
            for m in range(first, end):
                e = base + members[m]
                w = volume[e] / mean.total
                add_stress(nodes[e], rest[e], F_adj * -w, x_adj)
                add_stress(nodes[e], rest[e], dF_adj * -w, v_adj)
                wp.atomic_add(values_adj, MU, e, (mu_adj - share * AC * values[ACTUATION, e]) * w)
                wp.atomic_add(values_adj, DAMPING, e, wp.ddot(S, E) * w)
                wp.atomic_add(values_adj, BULK_DAMPING, e, wp.trace(E) * AF * w)
                wp.atomic_add(values_adj, ACTUATION, e, -share * AC * values[MU, e] * w)
        else:
            node = node_mean(first, end, base, members, volume, values)
            mean_first = mean_offsets[domain - counts[1]]
            mean_end = mean_offsets[domain - counts[1] + 1]
            J = volume_change(mean_first, mean_end, base, mean_members, mean_weights, nodes, rest, x)
            size = node.total / four  # volume of the domain
            pressure = (node.bulk * (J - one) - node.active) * size
            p_adj = real(0.0)  # over the volume
            for m in range(mean_first, mean_end):
                e = base + mean_members[m]
                own = gradient(nodes[e], rest[e], f_adj)
                p_adj -= wp.ddot(own, cofactor(gradient(nodes[e], rest[e], x))) * mean_weights[m]
            J_adj = node.bulk * p_adj * size
            for m in range(mean_first, mean_end):
                e = base + mean_members[m]
                w = mean_weights[m]
                Ft = gradient(nodes[e], rest[e], x)
                At = gradient(nodes[e], rest[e], f_adj)
                Ft_adj = cofactor_gradient(Ft, At) * (-pressure * w) + cofactor(Ft) * (J_adj * w)
                add_stress(nodes[e], rest[e], -Ft_adj, x_adj)
            for m in range(first, end):
                e = base + members[m]
                w = volume[e] / four
                actuation = values[ACTUATION, e]
                bulk_adj = (J - one - actuation) * p_adj * w
                wp.atomic_add(values_adj, LAM, e, bulk_adj)
                wp.atomic_add(values_adj, MU, e, -share * bulk_adj)
                wp.atomic_add(values_adj, ACTUATION, e, -(values[LAM, e] - share * values[MU, e]) * p_adj * w)

    return ForceKernels(smoothed_tet_force, smoothed_tet_force_adjoint)


SMOOTHED_TETRAHEDRA = ForceFamily(
    name=NAME,
    rows=ROWS,
    owners=(Soft,),
    elements=smoothed_tet_elements,
    parameters=PARAMETERS | {"bulk_damping": edge_bulk_damping},
    signals=("actuation",),
    present=lambda body, scene: isinstance(body.element, SmoothedTet),
    kernels=smoothed_tet_kernels,
    arrays=smoothed_tet_arrays,
    threads=lambda topology: len(domains_of(topology, NAME).offsets) - 1,
    native="smoothed_tetrahedra.h",
    per_world=True,
    native_arrays=native_arrays,
    tangent="tet",
    stable_rate=smoothed_tet_rate,
    reason="material stiffness",
)
