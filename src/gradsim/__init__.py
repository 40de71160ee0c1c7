"""gradsim: differentiable simulation from pixels to physics and back."""

from gradsim import meshes
from gradsim.scene import errors
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.errors import (
    BrokenGradient,
    ContactWarning,
    Diverged,
    GradsimError,
    InvalidInput,
    MissingExtra,
    StabilityWarning,
)
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.mesh_files import load_mesh
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.quantity import Signal, each
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticSphere
from gradsim.scene.smoke import Closed, Periodic, Smoke
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.rollout import simulate
from gradsim.simulate.stability import stable_dt

__version__ = "0.1.0"

__all__ = [
    "Bending",
    "BrokenGradient",
    "Closed",
    "Cloth",
    "Contact",
    "ContactWarning",
    "Diverged",
    "DoublePendulum",
    "GradsimError",
    "Ground",
    "InvalidInput",
    "Membrane",
    "Midpoint",
    "MissingExtra",
    "NeoHookean",
    "Pendulum",
    "Periodic",
    "Push",
    "Region",
    "Rigid",
    "Scene",
    "Signal",
    "Smoke",
    "Soft",
    "Springs",
    "StabilityWarning",
    "State",
    "StaticBox",
    "StaticCapsule",
    "StaticSphere",
    "SymplecticEuler",
    "TetMesh",
    "Trajectory",
    "TriMesh",
    "each",
    "errors",
    "load_mesh",
    "meshes",
    "simulate",
    "stable_dt",
]
