"""Problems that between them use every body, force and parameter, for checks, tests and benchmarks."""

from __future__ import annotations

from gradsim.check.gradient_problems.articulated import ARM, HOPPER, TREE
from gradsim.check.gradient_problems.balls import BALL, RESTITUTION
from gradsim.check.gradient_problems.cloth import CLOTH_FLIGHT, CLOTH_IMPACT, SPRING_IMPACT
from gradsim.check.gradient_problems.motion import CLAMP, DRIVEN_ARM, MOVING_SHAPES
from gradsim.check.gradient_problems.node_contact import (
    BLOCK_AND_BALL,
    BLOCK_AND_BOX,
    BLOCK_AND_MESH,
    BLOCKS,
    SHEET_AND_BALL,
    SHEET_AND_BOX,
    SHEET_AND_CAPSULE,
    SHEETS,
)
from gradsim.check.gradient_problems.pairs import BALL_PAIR, BOX_PAIR, CAPSULE_PAIR, MESH_PAIR, MIXED_PAIRS
from gradsim.check.gradient_problems.pendulum import DOUBLE_PENDULUM, PENDULUM
from gradsim.check.gradient_problems.problem import GradientProblem
from gradsim.check.gradient_problems.rigid import (
    CUBE_STEP,
    RIGID_IMPACT,
    RIGID_PUSHED,
    RIGID_SHAPES,
    RIGID_SIZE,
    cube_scene,
    cube_values,
)
from gradsim.check.gradient_problems.soft import BOUNCE, SOFT_FLIGHT, SOFT_IMPACT, SOFT_SHAPES, SOFT_STICK_SLIP
from gradsim.check.gradient_problems.sticking import (
    STICKING_BALL,
    STICKING_BODIES,
    STICKING_BOX,
    STICKING_PAIR,
    STICKING_SHAPES,
    STICKING_SOFT,
)

__all__ = ["BOUNCE", "CUBE_STEP", "PROBLEMS", "GradientProblem", "cube_scene", "cube_values"]

PROBLEMS: tuple[GradientProblem, ...] = (
    SOFT_FLIGHT,
    SOFT_IMPACT,
    SOFT_STICK_SLIP,
    CLOTH_FLIGHT,
    CLOTH_IMPACT,
    SPRING_IMPACT,
    RIGID_PUSHED,
    RIGID_IMPACT,
    RIGID_SHAPES,
    RIGID_SIZE,
    RESTITUTION,
    BALL,
    BALL_PAIR,
    BOX_PAIR,
    CAPSULE_PAIR,
    MESH_PAIR,
    MIXED_PAIRS,
    SOFT_SHAPES,
    STICKING_BOX,
    STICKING_SHAPES,
    STICKING_BALL,
    STICKING_SOFT,
    STICKING_PAIR,
    STICKING_BODIES,
    PENDULUM,
    DOUBLE_PENDULUM,
    ARM,
    TREE,
    HOPPER,
    CLAMP,
    MOVING_SHAPES,
    DRIVEN_ARM,
    SHEETS,
    BLOCKS,
    SHEET_AND_BALL,
    SHEET_AND_BOX,
    BLOCK_AND_BALL,
    BLOCK_AND_BOX,
    SHEET_AND_CAPSULE,
    BLOCK_AND_MESH,
)
