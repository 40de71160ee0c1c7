"""gradsim: differentiable simulation from pixels to physics and back."""

from gradsim import meshes
from gradsim.render.dibr import DIBR
from gradsim.render.exact import Exact
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.render import render
from gradsim.render.softras import SoftRas
from gradsim.scene import errors
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.camera import Camera
from gradsim.scene.errors import (
    BrokenGradient,
    ContactWarning,
    Diverged,
    GradsimError,
    InvalidInput,
    MissingExtra,
    SilhouetteWarning,
    StabilityWarning,
)
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.lights import AmbientLight, DirectionalLight, PointLight
from gradsim.scene.looks import Checker, Look
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
from gradsim.scene.unknown import unknown
from gradsim.simulate.rollout import simulate
from gradsim.simulate.stability import stable_dt

__version__ = "0.1.0"

__all__ = [
    "AmbientLight",
    "Bending",
    "BrokenGradient",
    "Camera",
    "Checker",
    "Closed",
    "Cloth",
    "Contact",
    "ContactWarning",
    "DirectionalLight",
    "DIBR",
    "Diverged",
    "DoublePendulum",
    "Exact",
    "GradsimError",
    "Ground",
    "InvalidInput",
    "Look",
    "Membrane",
    "Midpoint",
    "MissingExtra",
    "Mitsuba",
    "NeoHookean",
    "Pendulum",
    "Periodic",
    "PointLight",
    "Push",
    "Region",
    "Rigid",
    "Scene",
    "Signal",
    "SilhouetteWarning",
    "Smoke",
    "Soft",
    "SoftRas",
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
    "render",
    "simulate",
    "stable_dt",
    "unknown",
]
