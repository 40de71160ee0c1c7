"""rollout(): simulates a scene under open-loop or closed-loop policies."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gradsim.fit.policies import Policy
from gradsim.fit.policy_runner import PolicyRunner, checked_controls
from gradsim.scene.arguments import checked_number
from gradsim.scene.errors import WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.time import Time
from gradsim.scene.trajectory import State, Trajectory


def rollout(
    scene: Scene,
    controls: Mapping[str, Policy],
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    integrator: Integrator = Time.integrator,
    start: State | None = None,
    dtype: torch.dtype | None = None,
    memory: float | None = None,
) -> Trajectory:
    """Simulates a scene under policies.

    Gradients flow to the policies' weights, also through the observations of closed-loop policies.

    Example:
        `gs.rollout(scene, {"block.actuation": gs.Sinusoids(outputs=30)}, frames=60)`

    Args:
        scene: Scene to simulate.
        controls: Policies by the path of the quantity they set, such as `{"gear.actuation": gs.Sinusoids(...)}`.
            Open-loop modules are evaluated once for all frames and interpolated linearly in between; `gs.Feedback` is
            evaluated once per frame.
        frames, fps, substeps, integrator, start, dtype, memory: As for `gs.simulate`.
    """
    if not isinstance(scene, Scene):
        raise WrongType("scene", abbreviate(scene), "must be a gs.Scene")
    time = Time(frames, checked_number("fps", fps, above=0.0), substeps, integrator)
    return (
        PolicyRunner(scene, checked_controls(controls))
        .run(scene, time, start=start, dtype=dtype, memory=memory)
        .trajectory
    )
