"""An estimation problem with tens of unknowns that takes milliseconds."""

import numpy as np

import gradsim as gs
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import Trial, make_trial_model


def sheet(velocity) -> gs.Scene:
    cloth = gs.Cloth(
        "cloth",
        gs.meshes.grid(0.6, 2),
        density=0.2,
        material=gs.Membrane(mu=20.0, lam=20.0, damping=0.05),
        bending=gs.Bending(stiffness=1e-3),
        drag=0.3,
        rotation=(0.5, 0.0, 0.15, 0.85),
        velocity=gs.per_element(velocity),
        look=gs.Look(vertex_colors=np.random.default_rng(0).uniform(0.1, 0.9, (9, 3))),
    )
    ground = gs.Ground(ke=40.0, kd=0.1, kf=0.1, mu=0.0, offset=-0.15, delta=0.05)
    return gs.Scene([cloth], ground=ground, camera=gs.Camera(eye=(0.2, 0.6, 1.4), target=(0.0, 0.0, 0.0)))


def cloth_problem(kind: str, noise: float = 1e-3) -> EstimationProblem:
    """27 unknown velocities of a cloth that touches the ground, from a video, or from states with `noise` [m]."""
    true = sheet(np.random.default_rng(1).normal(0.0, 0.5, (9, 3)))
    motion = gs.simulate(true, frames=4, fps=20, substeps=24, integrator=gs.RungeKutta4())
    video = gs.render(true, motion, (16, 16))
    observed = video if kind == "video" else gs.States({"cloth.vertices": motion["cloth"].vertices}, noise=noise)
    scene = sheet(gs.unknown(np.zeros((9, 3)), prior=gs.Normal(0.0, 0.5)))
    model = make_trial_model(Trial(scene, observed, fps=20.0), name="0", substeps=16, integrator=gs.Midpoint())
    return EstimationProblem(Parameters(scene), (model,))
