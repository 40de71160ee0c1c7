"""Contact of nodes with nodes: balls at the nodes of bodies with a `gs.SelfContact`.

Two balls whose centres are closer than the sum of their radii repel each other with the law of `contact_law.py`, along
the line between them; friction acts against their relative velocity across it. Momentum is conserved; so is angular
momentum without friction, whose two forces act a diameter apart. Which pairs are close is data, not differentiated. The
portable kernel goes through all pairs. The native one keeps a list of pairs that may touch, with a margin, and renews
it when nodes have moved too far for it.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.quantity import PerElement, is_per_element, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import ball_radii, contact_nodes, untouched_pairs
from gradsim.simulate.forces.contact_law import ROW_NAMES, contact_law_functions
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("node_pair", *ROW_NAMES, "radius")
DEPTH = 0.1  # default of delta, as a fraction of the largest diameter
NEIGHBOURS = 32  # pairs for each node that the native list has room for


@functools.lru_cache(maxsize=32)
def _balls(mesh: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns nodes with a ball, default radii [m] of these, and pairs that never touch."""
    nodes = contact_nodes(mesh)
    return nodes, ball_radii(mesh)[nodes], untouched_pairs(mesh)


def node_pair_elements(body: Any, place: "Placement") -> Elements:
    """Balls of a body; `skipped` are pairs that never touch, by element of the family."""
    nodes, _, skipped = _balls(body.mesh)
    first = sum(end - start for (family, _), (start, end) in place.ranges.items() if family == "node_pair")
    element = np.zeros(len(body.mesh.vertices), dtype=np.int32)
    element[nodes] = first + np.arange(len(nodes))
    on_surface = np.isin(skipped, nodes).all(1)
    group = -1 - place.first("node", body) if not body.self_contact.within else place.first("node", body)
    return Elements(
        len(nodes),
        {
            "nodes": (nodes + place.first("node", body)).astype(np.int32),
            "groups": np.full(len(nodes), group, dtype=np.int32),  # negative: nodes of the group do not touch
            "skipped": element[skipped[on_surface]],
        },
    )


def node_pair_columns(body: Any, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    law, (nodes, radii, _) = body.self_contact, _balls(body.mesh)
    radius: Any = PerElement(radii) if law.radius is None else law.radius
    if law.radius is not None and is_per_element(law.radius):
        radius = PerElement(unwrap(law.radius)[..., nodes])
    delta = 2.0 * DEPTH * _largest(radius) if law.delta is None else law.delta
    values = (law.ke, law.kd, law.kf, law.mu, delta, radius)
    return batcher.rows(("node_pair", body.name), values, len(nodes))


def _largest(radius: Any) -> Any:
    """Returns the largest radius of a body's balls [m], [...]."""
    values = unwrap(radius)
    if not is_per_element(radius):
        return values
    return np.asarray(values.max(-1)) if isinstance(values, np.ndarray) else values.amax(-1)


def node_pair_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if every node touched another from both sides."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = 4.0 * view.node_compliance("one")
    return ke * compliance, max(kd, kf) * compliance


def skipped_lists(count: int, skipped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns for every element the smaller elements that it never touches: offsets [count + 1], and all in order."""
    larger, smaller = skipped.max(1, initial=0), skipped.min(1, initial=count)
    order = np.lexsort((smaller, larger))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(larger, minlength=count))])
    return offsets.astype(np.int32), smaller[order].astype(np.int32)


def node_pair_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns nodes, groups, and the lists of elements that never touch, within a world."""
    arrays, count = layout.topology.arrays, layout.topology.elements["node_pair"]
    offsets, smaller = skipped_lists(count, arrays["node_pair.skipped"])
    nodes = layout.indices("node_pair", "nodes", "node")
    fixed = (arrays["node_pair.groups"], offsets, np.append(smaller, np.int32(-1)))
    return nodes, *map(layout.constant, fixed), layout.constant(np.array([count], dtype=np.int32))


@functools.cache
def node_pair_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    table, vec3s, ints = types.table, types.vec3s, types.ints
    module = kernel_module("node_pairs", real)
    contact_parameters, contact_force, contact_force_adjoint = contact_law_functions(real)[:3]
    half = real(0.5)
    RADIUS = ROWS.radius

    @wp.func
    def may_collide(a: int, b: int, groups: ints, offsets: ints, smaller: ints):
        """Whether element a and the smaller b of a world may touch."""
        found = groups[a] != groups[b] or groups[a] >= 0
        for k in range(offsets[a], offsets[a + 1]):
            if smaller[k] == b:
                found = False
        return found

    @wp.func
    def pair_parameters(law: table, a: int, b: int):
        ke1, kd1, kf1, mu1, delta1 = contact_parameters(law, a)
        ke2, kd2, kf2, mu2, delta2 = contact_parameters(law, b)
        return half * (ke1 + ke2), half * (kd1 + kd2), half * (kf1 + kf2), half * (mu1 + mu2), half * (delta1 + delta2)

    @wp.kernel(enable_backward=False, module=module)
    def node_pair_force(
        nodes: ints, groups: ints, offsets: ints, smaller: ints, count: ints, law: table, x: vec3s, v: vec3s, f: vec3s
    ):
        a = wp.tid()
        world = a / count[0]
        i = nodes[a]
        for b in range(world * count[0], a):
            j = nodes[b]
            d = x[i] - x[j]
            l = wp.length(d)
            c = law[RADIUS, a] + law[RADIUS, b] - l
            if c > real(0.0) and l > real(0.0):
                if may_collide(a - world * count[0], b - world * count[0], groups, offsets, smaller):
                    ke, kd, kf, mu, delta = pair_parameters(law, a, b)
                    force = contact_force(c, d / l, v[i] - v[j], ke, kd, kf, mu, delta)
                    wp.atomic_add(f, i, force)
                    wp.atomic_sub(f, j, force)

    @wp.kernel(enable_backward=False, module=module)
    def node_pair_force_adjoint(
        nodes: ints, groups: ints, offsets: ints, smaller: ints, count: ints, law: table, x: vec3s, v: vec3s,
        f_adj: vec3s, law_adj: table, x_adj: vec3s, v_adj: vec3s,
    ):  # fmt: skip
        a = wp.tid()
        world = a / count[0]
        i = nodes[a]
        for b in range(world * count[0], a):
            j = nodes[b]
            d = x[i] - x[j]
            l = wp.length(d)
            c = law[RADIUS, a] + law[RADIUS, b] - l
            if c > real(0.0) and l > real(0.0):
                if may_collide(a - world * count[0], b - world * count[0], groups, offsets, smaller):
                    ke, kd, kf, mu, delta = pair_parameters(law, a, b)
                    n = d / l
                    c_adj, n_adj, u_adj, five = contact_force_adjoint(
                        f_adj[i] - f_adj[j], c, n, v[i] - v[j], ke, kd, kf, mu, delta
                    )
                    for k in range(5):
                        wp.atomic_add(law_adj, k, a, half * five[k])
                        wp.atomic_add(law_adj, k, b, half * five[k])
                    wp.atomic_add(law_adj, RADIUS, a, c_adj)
                    wp.atomic_add(law_adj, RADIUS, b, c_adj)
                    d_adj = (n_adj - n * wp.dot(n, n_adj)) / l - n * c_adj
                    wp.atomic_add(x_adj, i, d_adj)
                    wp.atomic_sub(x_adj, j, d_adj)
                    wp.atomic_add(v_adj, i, u_adj)
                    wp.atomic_sub(v_adj, j, u_adj)

    return ForceKernels(node_pair_force, node_pair_force_adjoint)


NODE_PAIRS = ForceFamily(
    name="node_pair",
    rows=ROWS,
    owners=(Soft, Cloth),
    elements=node_pair_elements,
    columns=node_pair_columns,
    present=lambda body, scene: body.self_contact is not None,
    key=lambda body: body.self_contact.within,
    kernels=node_pair_kernels,
    arrays=node_pair_arrays,
    native="node_pairs.h",
    per_world=True,
    stable_rate=node_pair_rate,
    reason="self contact",
)
