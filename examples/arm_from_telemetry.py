"""Damping, dry friction and mass of a two-link arm from its joint angles while motors follow known torques."""

import numpy as np
import torch

import gradsim as gs

BOX = gs.meshes.box((0.06, 0.4, 0.06))
BAR = gs.TriMesh(BOX.vertices - (0.0, 0.2, 0.0), BOX.faces)  # hangs from its joint
TORQUES = [2.0 * np.sin(np.linspace(0.0, 9.0, 61)), 0.8 * np.cos(np.linspace(0.0, 14.0, 61))]


def arm(damping, friction, mass):
    shoulder = gs.Revolute(angle=0.3, damping=damping, friction=0.05, slip=0.1, torque=gs.Signal(TORQUES[0]))
    elbow = gs.Revolute(damping=0.02, friction=friction, slip=0.1, torque=gs.Signal(TORQUES[1]))
    links = {
        "upper": gs.Link(shoulder, mass=1.5, center=(0.0, -0.2, 0.0), mesh=BAR),
        "fore": gs.Link(elbow, "upper", (0.0, -0.4, 0.0), mass=mass, center=(0.0, -0.2, 0.0), mesh=BAR),
    }
    return gs.Scene([gs.Articulated("arm", links)])


motion = gs.simulate(arm(0.15, 0.08, 0.9), frames=61, fps=30, substeps=64, integrator=gs.RungeKutta4())
noise = 0.002 * torch.randn(61, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
telemetry = motion["arm"].angles + noise
telemetry[20:25, 1] = torch.nan  # the encoder of the elbow failed for a while

guess = arm(
    gs.unknown(0.05, low=0.0, high=1.0), gs.unknown(0.02, low=0.0, high=1.0), gs.unknown(1.5, low=0.2, high=5.0)
)
fit = gs.estimate(guess, gs.States({"arm.angles": telemetry}, noise=0.002), fps=30)
print(fit)
for path, true in {"upper.joint.damping": 0.15, "fore.joint.friction": 0.08, "fore.mass": 0.9}.items():
    low, high = fit.intervals[f"arm.links.{path}"]
    assert low - 0.02 * true < true < high + 0.02 * true
