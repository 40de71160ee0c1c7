"""Structures, enumerations and constants that the native rollouts share with Python."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import warp as wp

from gradsim.bridge import Table
from gradsim.native import Definition
from gradsim.native.structures import FLOAT64, INT64, Constants, Enumeration, Structure
from gradsim.scene.integrators import Integrator
from gradsim.simulate.forces import colliders, shapes
from gradsim.simulate.forces.contact_law import ROWS as CONTACT_ROWS
from gradsim.simulate.forces.family import INTERPOLATIONS, ForceFamily
from gradsim.simulate.forces.registry import FORCE_FAMILIES
from gradsim.simulate.state.kernels.rigid import FORMS
from gradsim.simulate.state.prescribed import NODE_MOTION, RIGID_MOTION
from gradsim.simulate.state.registry import STATE_PARTS

NATIVE_FORCES = tuple(family for family in FORCE_FAMILIES if family.native is not None)
FORCE_KIND = Enumeration("force_kind", tuple(family.name for family in NATIVE_FORCES))
SIZES = Constants(
    "sizes",
    rigid_state=13,  # scalars of a rigid body's state: p, q, v, l
    point_block_rows=5,  # of a block of contact points: x, y, z, depth offset, bounding sphere
    pair_scratch=72,  # scalars of scratch memory for a rigid body and a shape
    push_scratch=16,  # for a push
    body_scratch=208,  # for a rigid body
    stage_scratch=32,  # for a rigid body and a stage
    sample_scratch=20,  # vectors for a sample of a body in contact with another
    collider_scratch=20,  # for the shape of a body in contact with others
    neighbour_scratch=4,  # for a body in a list of neighbours
    neighbour_integers=16,  # and integers for it
    law_scratch=26,  # for the contact parameters of pairs of bodies
    joint_scratch=154,  # for a joint
    joint_stage_scratch=106,  # for a joint and a stage
)

TABLE = Structure(
    "Table",
    {"value": "T*", "grad": "T*", "stride": INT64},
    comment="A parameter table [rows, elements] with its gradient.",
)
FORCE = Structure(
    "ForceArrays",
    {
        **{"kind": INT64, "count": INT64, "constants": ("const void*", 4), "tables": (TABLE, 3)},
        "order": "const int*",  # of the blocks of a world, by subdomain; null if there is one
        "subdomain_bounds": "const int*",  # where each subdomain begins, the blocks that act on several, and the end
    },
    comment="A force family: blocks of lanes or elements of one world; index arrays, constants and parameter tables.",
    members="""
    inline const int* ints(int k) const { return (const int*)constants[k]; }
    inline const T* reals(int k) const { return (const T*)constants[k]; }""",
)
SIGNAL = Structure(
    "SignalArrays",
    {
        **dict.fromkeys(("value", "grad"), "T*"),  # of the row it sets
        "samples": "const T*",
        "samples_grad": "T*",
        **dict.fromkeys(
            ("sample_count", "count", "first", "stride", "row", "interpolation"), INT64
        ),  # `count` elements from `first` of a world
    },
    comment="Samples [worlds, samples, elements] that set a range of one row of a parameter table.",
)
PRESCRIBED_NODES = Structure(
    "PrescribedNodes",
    {"count": INT64, "nodes": "const int*", "table": TABLE},
    comment="Nodes of one world that follow a prescribed motion: places in the buffers, positions and velocities.",
)
NODE_ROW = 4  # scalars of a node in these buffers, one of them padding
NODE_BUFFERS = ("x", "v", "f", "x_adj", "v_adj", "f_adj", "x_start", "v_start")
ANCHOR_BUFFERS = ("xi", "next", "xi_adj", "next_adj")
NODES = Structure(
    "Nodes",
    {
        "blocks": INT64,  # of nodes in a world
        "subdomain_count": INT64,  # of a world
        "subdomain_bounds": "const int*",  # first block of nodes of each subdomain, and the end
        "row": INT64,  # scalars of the history per evaluation
        "count": INT64,  # nodes of all worlds
        **dict.fromkeys((*NODE_BUFFERS, "v_stage", "a_stage", "xs", "vs", "fs"), "T*"),
        "anchor_blocks": INT64,  # of anchors of sticking friction in a world, one for each pair of node contact
        "anchor_row": INT64,  # scalars of their history per step
        **dict.fromkeys(ANCHOR_BUFFERS, "T*"),
        "xis": "T*",  # history of the anchors
        "anchor_stage": "T*",  # time that the anchors advance in the stage, time step, whether it moves them
        "table": TABLE,
    },
    comment="All nodes of some worlds, each of which fills whole blocks. Buffers have rows of four scalars a node, the"
    " history xs, vs, fs has three.",
)
MOST_THREADS = 64  # of a team
TEAM_STATE = Structure(
    "TeamState",
    {
        **dict.fromkeys(("arrived", "passed"), INT64),  # threads at the present barrier, and number of barriers passed
        "stop": INT64,  # whether the team ends early
        "next": INT64,  # number of the launch times 2^32, plus the next world to begin
        "done": INT64,  # worlds advanced in all launches
        "launch": (INT64, MOST_THREADS),  # number of each thread's launch
    },
    comment="What the threads of a team share.",
)
RIGID_STATES, RIGID_FORCES = ("p", "q", "v", "l"), ("f", "t")
RIGID_BODIES = Structure(
    "RigidBodies",
    {
        **dict.fromkeys(
            ("world_count", "body_count", "shape_count", "touching_count", "push_count", "drag_count", "row_count"),
            INT64,
        ),
        **dict.fromkeys(("shape_signal_count", "motion_signal_count"), INT64),
        "blocks": "const int*",  # first block of points of each body
        "sizes": "const int*",  # number of points of each body
        "points": "const T*",  # in mesh coordinates
        "point_order": "const int*",  # index of the point in every lane of these blocks
        "forms": "const int*",  # of bodies: contact points, sized or not, or a ball
        "kinds": "const int*",  # of shapes
        "flags": "const int*",  # of shapes: whether they move, and whether their parameters have gradients
        "moved": "const int*",  # element of the prescribed motion of each body, or -1
        **dict.fromkeys(("shape_signals", "motion_signals"), "const SignalArrays<T>*"),
        "pushed": "const int*",  # bodies that pushes act on
        "dragged": "const int*",  # bodies with air drag
        "touching": "const int*",  # number of each body among those that touch shapes, -1 for others
        **dict.fromkeys(("contact", "shape", "push", "drag", "body"), TABLE),
        **dict.fromkeys((*RIGID_STATES, *(f"{state}_adj" for state in RIGID_STATES)), "T*"),
        **dict.fromkeys(
            (*RIGID_FORCES, *(f"{force}_adj" for force in RIGID_FORCES)), "T*"
        ),  # forces and torques that the integrator carries
        **dict.fromkeys(("xi", "xi_adj"), "T*"),  # anchors of sticking friction
        **dict.fromkeys(("anchor_count", "anchor_rows", "anchor_row"), INT64),  # of a world; in the history; scalars
        "anchor_blocks": "const int*",  # first block and first element of each pair of a body and a shape
        "anchor_elements": "const int*",
        "anchors": "T*",  # [blocks of worlds, rows, anchor_row]
        "anchor_scratch": "T*",
        "history": "T*",  # [threads, rows, rigid_state, lanes]
        "scratch": "T*",
    },
    comment="All rigid bodies of some worlds.",
)
DISTANCE_GRID = Structure(
    "DistanceGrid",
    {
        **dict.fromkeys(("nx", "ny", "nz"), INT64),
        "origin": (FLOAT64, 3),
        **dict.fromkeys(("per_spacing", "padding"), FLOAT64),
        "coefficients": "const T*",
    },
    comment="The distance of a mesh on a grid.",
)
PAIRS = Structure(
    "PairArrays",
    {
        **dict.fromkeys(("group_count", "law_count", "sample_capacity", "neighbour_capacity"), INT64),
        "groups": "const int*",  # of bodies
        "numbers": "const int*",  # of laws, by group and group; -1 where bodies do not touch
        "shapes": "const int*",  # of bodies
        "kinds": "const int*",  # of shapes
        "blocks": "const int*",  # first block of samples of each shape
        "sizes": "const int*",  # number of samples of each shape
        "samples": "const T*",  # blocks in units of the extent; with weights instead of depth offsets
        "reach": "const T*",  # of shapes: largest distance of a sample
        "grids": "const void*",
        **dict.fromkeys(("law", "collider"), TABLE),
        "scratch": "T*",
        # anchors of sticking friction: of a world; samples of one body in another; their flags; scalars and rows
        **dict.fromkeys(("anchor_count", "anchor_numbers", "anchor_flags", "anchor_row", "anchor_rows"), INT64),
        "anchor_pairs": "const int*",  # number of each pair of bodies
        "anchor_blocks": "const int*",  # of samples of one body in another: first block in a row, first element, shape
        "anchor_elements": "const int*",
        "anchor_shapes": "const int*",
        "sample_order": "const int*",  # index of the sample in every lane of the blocks of samples
        **dict.fromkeys(("xi", "xi_adj"), "T*"),
        "anchors": "T*",  # [blocks of worlds, rows, anchor_row]
        "anchor_scratch": "T*",
    },
    comment="Contact between the rigid bodies of some worlds.",
)
JOINTS = Structure(
    "Joints",
    {
        **dict.fromkeys(("world_count", "joint_count", "signal_count", "step_count", "link_count"), INT64),
        **dict.fromkeys(("kinds", "parents"), "const int*"),  # of the joints of one world
        "signals": "const SignalArrays<T>*",
        "table": TABLE,
        **dict.fromkeys(("q", "v", "q_adj", "v_adj"), "T*"),
        "link_joints": "const int*",  # that carry the links in contact of one world
        "link_bodies": "const int*",  # that these links are
        "link": TABLE,
        "history": "T*",  # [threads, steps, states of joints and wrenches of links at all stages, lanes]
        "scratch": "T*",
    },
    comment="All joints of articulated bodies in some worlds.",
)


class Tableau:
    """The coefficients of an integrator as C++ constants."""

    def __init__(self, integrator: Integrator):
        self.integrator = integrator

    def cpp(self) -> str:
        """C++ definition."""
        stages = self.integrator.stages
        count = len(stages)

        def matrix(name: str) -> str:
            rows = [[*getattr(stage, name), *[0.0] * (count - k - 1)] for k, stage in enumerate(stages)]
            text = ", ".join("{" + ", ".join(map(repr, row)) + "}" for row in rows)
            return f"    static constexpr double {name}[{count}][{count}] = {{{text}}};"

        def row(values: Iterable[Any]) -> str:
            return ", ".join(repr(float(value)) for value in values)

        new, predicted = (row(getattr(stage, name) for stage in stages) for name in ("new_velocity", "prediction"))
        carries = str(self.integrator.carries).lower()
        times, anchor_times = row(self.integrator.stage_times), row(self.integrator.anchor_times)
        offset, slope = self.integrator.force_slope
        slopes = row(offset + slope * time for time in self.integrator.stage_times)
        return "\n".join(
            (
                f"// {type(self.integrator).__name__}: weights of accelerations and velocities, stage by stage.",
                "struct Tableau {",
                f"    static constexpr int stages = {count};",
                f"    static constexpr bool carries = {carries};  // the last force of a step to the next step",
                matrix("acceleration"),
                matrix("velocity"),
                f"    static constexpr double new_velocity[{count}] = {{{new}}};",
                f"    static constexpr double prediction[{count}] = {{{predicted}}};",
                f"    static constexpr double time[{count}] = {{{times}}};",
                f"    static constexpr double force_slope[{count}] = {{{slopes}}};",
                f"    static constexpr double anchor_time[{count}] = {{{anchor_times}}};",
                f"    static constexpr int anchor_stage = {self.integrator.anchor_stage};",
                "};",
            )
        )

    @property
    def name(self) -> str:
        """A name for kernel modules, different for different coefficients."""
        digest = zlib.crc32(repr((self.integrator.stages, self.integrator.carries)).encode())
        return f"{type(self.integrator).__name__}_{digest:08x}"


class ForceList:
    """C++ macros that apply a macro X to every force on nodes, in blocks or per world, and between the parts.

    Args:
        families: Force families that a module has.
    """

    def __init__(self, families: Sequence[ForceFamily]):
        self.families = families

    def cpp(self) -> str:
        """C++ definition."""
        on_nodes = [family for family in self.families if family.acts_on == ("node",)]
        node = " ".join(f"X({family.name})" for family in on_nodes if not family.per_world)
        world = " ".join(f"X({family.name})" for family in on_nodes if family.per_world)
        between = " ".join(f"X({family.name})" for family in self.families if family.couples)
        macros = {"NODE": node, "WORLD": world, "COUPLING": between}
        return "\n".join(f"#define FOR_{kind}_FORCES(X) {names}" for kind, names in macros.items())


SHARED_DEFINITIONS: tuple[Definition, ...] = (
    SIZES,
    FORCE_KIND,
    shapes.KINDS,
    shapes.FLAGS,
    colliders.KINDS,
    CONTACT_ROWS,
    FORMS,
    *(family.rows for family in (*STATE_PARTS, shapes.STATIC_SHAPES, colliders.COLLIDERS)),
    *(family.rows for family in (NODE_MOTION, RIGID_MOTION, *NATIVE_FORCES)),
    TABLE,
    FORCE,
    INTERPOLATIONS,
    SIGNAL,
    PRESCRIBED_NODES,
    NODES,
    TEAM_STATE,
    RIGID_BODIES,
    DISTANCE_GRID,
    PAIRS,
)


def table_of(table: Table) -> Any:
    """Returns the native structure of a parameter table."""
    return TABLE(value=table.value.ptr, grad=table.grad.ptr, stride=table.value.shape[1])


def packed(structures: Sequence[Any], kind: Structure) -> Any:
    """Returns structures as a Warp array of bytes, [count, size]."""
    data = np.frombuffer(b"".join(map(bytes, structures)), np.uint8).reshape(-1, ctypes.sizeof(kind.ctype))
    return wp.array(data, dtype=wp.uint8, device="cpu")
