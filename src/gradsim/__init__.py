"""gradsim: differentiable simulation from pixels to physics and back."""

import logging as _logging

from gradsim import datasets, meshes
from gradsim._version import __version__ as __version__
from gradsim.compare.distances import Blur, Cumulative, Moments
from gradsim.compare.pixels import mse
from gradsim.compare.silhouettes import cumulative
from gradsim.environment import environment
from gradsim.fit.base_parameters import BaseParameter, base_parameters
from gradsim.fit.control import control
from gradsim.fit.design import Design, best_design
from gradsim.fit.estimate import estimate
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.goals import GoalImage, GoalState
from gradsim.fit.identifiability import ExpectedIntervals, identifiability
from gradsim.fit.jacobians import Adjoint, Differences
from gradsim.fit.minimize import minimize
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.observations.depth import Depth
from gradsim.fit.observations.masks import Masks
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.observations.points import Bob, Center, FacePoint, Marker, Vertex
from gradsim.fit.observations.robust import Cauchy, Huber
from gradsim.fit.observations.states import States
from gradsim.fit.observations.tables import load_states
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.optimizers import LBFGS, Adam, RandomSearch, TorchOptimizer
from gradsim.fit.pendulum_tracks import pendulum_trials
from gradsim.fit.plan import Plan
from gradsim.fit.policies import Feedback, Keyframes, Sinusoids
from gradsim.fit.result import Fit
from gradsim.fit.rollout import rollout
from gradsim.fit.trials import Trial
from gradsim.footage.prepare import Prepared
from gradsim.footage.prepare_video import prepare
from gradsim.render.dibr import DIBR
from gradsim.render.exact import Exact
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.render import render
from gradsim.render.softras import SoftRas
from gradsim.report.fit_page import write_report
from gradsim.report.plan_page import write_plan
from gradsim.report.progress import ProgressBar
from gradsim.scene import errors
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.camera import Camera
from gradsim.scene.compound_pendula import as_articulated
from gradsim.scene.connections import Connection
from gradsim.scene.damping import Rayleigh
from gradsim.scene.elements import LinearTet, SmoothedTet
from gradsim.scene.errors import (
    BrokenGradient,
    ContactWarning,
    Diverged,
    GradsimError,
    InvalidInput,
    MissingExtra,
    RobotWarning,
    SceneFileError,
    SilhouetteWarning,
    StabilityWarning,
)
from gradsim.scene.files.load import load_scene, load_scene_file
from gradsim.scene.files.schema import scene_schema
from gradsim.scene.forces import BodyForce, Force, Tether
from gradsim.scene.friction import Regularized, Sticking
from gradsim.scene.integrators import (
    ImplicitMidpoint,
    Integrator,
    Midpoint,
    RungeKutta4,
    SymplecticEuler,
    Verlet,
    explicit_runge_kutta,
)
from gradsim.scene.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal
from gradsim.scene.lights import AmbientLight, DirectionalLight, PointLight
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.mesh_files import load_mesh
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.motion import Motion
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.priors import LogNormal, Normal
from gradsim.scene.quantity import Quantity, Signal, per_element, quantity
from gradsim.scene.rigid import Drag, Push, Rigid
from gradsim.scene.robots.load import Robot, load_robot
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import SelfContact
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticSphere
from gradsim.scene.smoke import Closed, Periodic, Smoke
from gradsim.scene.solids import Fibres, MooneyRivlin, StandardNeoHookean, StVenantKirchhoff
from gradsim.scene.time import Time
from gradsim.scene.trajectory import State, Trajectory
from gradsim.scene.unknown import unknown
from gradsim.simulate.forces.custom import node_force, rigid_force
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index
from gradsim.simulate.forces.registry import register_force_family
from gradsim.simulate.integrator_costs import IntegratorCost, compare_integrators
from gradsim.simulate.simulate import simulate
from gradsim.simulate.stability import stable_dt
from gradsim.simulate.trajectory_files import load_trajectory, save_trajectory
from gradsim.video.load import load_video
from gradsim.video.save import save_video
from gradsim.video.video import Video
from gradsim.view.glb import save_glb
from gradsim.view.usd import save_usd
from gradsim.view.viewer import view

__all__ = [
    "Adam",
    "Adjoint",
    "AmbientLight",
    "Articulated",
    "Ball",
    "BaseParameter",
    "Bending",
    "Blur",
    "BodyForce",
    "BrokenGradient",
    "Camera",
    "Cauchy",
    "Bob",
    "Center",
    "Checker",
    "Closed",
    "Cloth",
    "Connection",
    "Contact",
    "ContactWarning",
    "Cumulative",
    "DIBR",
    "Design",
    "Depth",
    "Differences",
    "DirectionalLight",
    "Diverged",
    "DoublePendulum",
    "Drag",
    "Elements",
    "Exact",
    "ExpectedIntervals",
    "FacePoint",
    "Feedback",
    "Fibres",
    "Fit",
    "Fixed",
    "Force",
    "ForceFamily",
    "ForceKernels",
    "Free",
    "GaussNewton",
    "GoalImage",
    "GoalState",
    "GradsimError",
    "Ground",
    "Huber",
    "ImplicitMidpoint",
    "Index",
    "Integrator",
    "IntegratorCost",
    "InvalidInput",
    "Keyframes",
    "LBFGS",
    "Link",
    "LogNormal",
    "MinimumNorm",
    "LinearTet",
    "Look",
    "Marker",
    "Masks",
    "Membrane",
    "Midpoint",
    "MissingExtra",
    "Mitsuba",
    "MooneyRivlin",
    "Moments",
    "Motion",
    "NeoHookean",
    "NodeContact",
    "Normal",
    "Pendulum",
    "Periodic",
    "Pixels",
    "Plan",
    "Prepared",
    "Prismatic",
    "ProgressBar",
    "PointLight",
    "Push",
    "Quantity",
    "RandomSearch",
    "Rayleigh",
    "Region",
    "Regularized",
    "Revolute",
    "Rigid",
    "Robot",
    "RobotWarning",
    "RungeKutta4",
    "Scene",
    "SelfContact",
    "SceneFileError",
    "Signal",
    "SilhouetteWarning",
    "Sinusoids",
    "Smoke",
    "SmoothedTet",
    "Soft",
    "SoftRas",
    "Spherical",
    "Springs",
    "StabilityWarning",
    "StVenantKirchhoff",
    "StandardNeoHookean",
    "State",
    "States",
    "StaticBox",
    "StaticCapsule",
    "StaticSphere",
    "Sticking",
    "SymplecticEuler",
    "TetMesh",
    "Tether",
    "Time",
    "Tracks",
    "Trajectory",
    "TriMesh",
    "Trial",
    "Universal",
    "Vertex",
    "Verlet",
    "Video",
    "TorchOptimizer",
    "as_articulated",
    "base_parameters",
    "best_design",
    "compare_integrators",
    "control",
    "cumulative",
    "datasets",
    "rollout",
    "per_element",
    "environment",
    "errors",
    "estimate",
    "explicit_runge_kutta",
    "identifiability",
    "load_mesh",
    "load_robot",
    "load_scene",
    "load_scene_file",
    "load_states",
    "load_trajectory",
    "load_video",
    "meshes",
    "minimize",
    "mse",
    "node_force",
    "pendulum_trials",
    "prepare",
    "quantity",
    "register_force_family",
    "render",
    "rigid_force",
    "save_glb",
    "save_trajectory",
    "save_usd",
    "save_video",
    "scene_schema",
    "simulate",
    "stable_dt",
    "unknown",
    "view",
    "write_plan",
    "write_report",
]

_logging.getLogger("gradsim").addHandler(_logging.NullHandler())  # silent unless the application configures logging
