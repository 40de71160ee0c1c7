"""gradsim: differentiable simulation from pixels to physics and back."""

from gradsim.scene import errors, meshes
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.errors import (
    BrokenGradient,
    Diverged,
    GradsimError,
    InvalidInput,
    MissingExtra,
    StabilityWarning,
)
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.mesh_files import load_mesh, save_mesh, tetrahedralize
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import Signal, each
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.rollout import simulate
from gradsim.simulate.stability import stable_dt

__version__ = "0.1.0"

__all__ = [
    "Bending",
    "BrokenGradient",
    "Cloth",
    "Contact",
    "Diverged",
    "GradsimError",
    "Ground",
    "InvalidInput",
    "Membrane",
    "Midpoint",
    "MissingExtra",
    "NeoHookean",
    "Region",
    "Scene",
    "Signal",
    "Soft",
    "Springs",
    "StabilityWarning",
    "State",
    "SymplecticEuler",
    "TetMesh",
    "Trajectory",
    "TriMesh",
    "each",
    "errors",
    "load_mesh",
    "meshes",
    "save_mesh",
    "simulate",
    "stable_dt",
    "tetrahedralize",
]
