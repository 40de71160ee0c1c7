"""Mass of a body of unknown shape: density and all three extents from one video.

An egg with unknown extents gets a known impulse, flies, and rolls over the ground. Its outline determines the extents;
how far the impulse throws it determines its mass. Inertia and contact points follow the estimated shape.
"""

from typing import Any

import torch

import gradsim as gs

TRUTH = {"egg.density": 5.0, "egg.size": (0.5, 0.7, 0.4)}  # [kg/m^3], [m]
TIME = {"fps": 30, "substeps": 40}


def scene(density: Any, size: Any) -> gs.Scene:
    """An egg that is pushed sideways and lands."""
    egg = gs.Rigid(
        "egg",
        gs.meshes.icosphere(0.5, 2),
        density=density,
        size=size,
        position=(-0.8, 0.7, 0.0),
        rotation=(0.2, 0.1, 0.3, 0.9),
        velocity=(0.3, 0.5, 0.0),
        pushes=[gs.Push(impulse=(0.5, 0.1, 0.0), point=(0.0, 0.1, 0.05))],
        look=gs.Look(color=(0.9, 0.6, 0.3), smooth=0.0),
    )
    ground = gs.Ground(ke=300.0, kd=1.0, kf=5.0, mu=0.5, delta=0.01)
    return gs.Scene([egg], ground, camera=gs.Camera(eye=(0.0, 1.2, 4.0), target=(0.0, 0.4, 0.0), fov=40))


true = scene(*TRUTH.values())
video = gs.render(true, gs.simulate(true, frames=25, **TIME), size=(64, 64))
density, size = gs.unknown(9.0, low=1.0, high=20.0), gs.unknown((0.6, 0.6, 0.6), low=0.2, high=1.2)
fit = gs.estimate(scene(density, size), video, **TIME)
print(fit)
for path, truth in TRUTH.items():
    value = fit.values[path]
    error = float((value / torch.tensor(truth, dtype=torch.float64) - 1).abs().max())
    print(f"{path}: {value.tolist()}, truth {truth}, largest relative error {error:.1e}")
    assert error < 1e-6
