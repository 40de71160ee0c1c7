"""What the native implicit steps share with Python: the structure of sparse systems and of their factors."""

from pathlib import Path

from gradsim.native.structures import FLOAT64, INT64, Constants, Enumeration, Structure

IMPLICIT_HEADER = Path(__file__).parent.parent / "native" / "implicit" / "implicit_rollout.h"

IMPLICIT_SIZES = Constants(
    "implicit_sizes",
    history=10,  # steps that accelerate the iteration
    growths=3,  # of the correction in a step that are accepted
    slow_iterations=6,  # iterations that gain less than a factor of two before the factor is replaced
)
BLOCK_FORMS = Enumeration("block_form", ("plain", "transposed", "both"))  # of an element's block in that of the matrix
FRONT = Structure(
    "Front",
    {
        **dict.fromkeys(("own", "size", "stride"), INT64),  # nodes it eliminates, all nodes, scalars of a column
        **dict.fromkeys(("nodes", "relative", "children", "child_count", "blocks", "block_count"), INT64),
        **dict.fromkeys(("factor", "unknowns", "update"), INT64),  # places of its columns, pivots and Schur complement
    },
    comment="A front: places of its parts in the arrays of the system.",
)
FORCE_TANGENT = Structure(
    "ForceTangent",
    {"kind": INT64, "nodes": INT64, "map": "const int*"},
    comment="The force whose adjoint gives the matrix, nodes of an element, and the block of every pair of them; null"
    " if the force is constant.",
)
IMPLICIT_SYSTEM = Structure(
    "ImplicitSystem",
    {
        **dict.fromkeys(("front_count", "block_count", "node_count", "max_iterations"), INT64),
        **dict.fromkeys(("tolerance", "refresh_cost"), FLOAT64),  # the cost of a factor in iterations
        "fronts": "const Front<T>*",
        "tangents": "const ForceTangent<T>*",
        **dict.fromkeys(
            ("front_nodes", "relative", "children", "block_places", "element_nodes", "near_offsets", "near"),
            "const int*",
        ),
        **dict.fromkeys(("blocks", "factor", "inverses", "stack", "work", "vectors"), "double*"),
        **dict.fromkeys(("element_memory", "unused"), "T*"),  # `unused` takes gradients of parameters
    },
    comment="The linear systems of implicit steps; one world at a time uses this memory.",
)
IMPLICIT_DEFINITIONS = (IMPLICIT_SIZES, BLOCK_FORMS, FRONT, FORCE_TANGENT, IMPLICIT_SYSTEM)
