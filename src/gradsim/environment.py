"""Control tasks as Gymnasium environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from gradsim.scene.errors import GradsimError, InvalidInput, MissingExtra
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.simulate import initial_trajectory, simulate

Bounds = tuple[Any, Any]  # lowest and highest values of a quantity, numbers or arrays of its shape


def environment(
    scene: Scene,
    actions: Mapping[str, Bounds],
    observe: Callable[[Trajectory], Any],
    reward: Callable[[Trajectory], float],
    *,
    steps: int = 100,
    fps: float = 30.0,
    substeps: int = 32,
    integrator: Integrator = Midpoint(),
    randomize: Callable[[np.random.Generator], Mapping[str, Any]] | None = None,
) -> Any:
    """Creates a Gymnasium environment that simulates a scene. It needs `pip install 'gradsim[gym]'`.

    An action sets quantities of the scene for the time of one frame. A state that is not finite terminates the episode
    with reward 0 for that step; after `steps` steps it is truncated.

    Example:
        `gs.environment(scene, {"scene.gravity": ((-2, -9.81, 0), (2, -9.81, 0))}, observe, reward, steps=50)`

    Args:
        scene: A scene without unknowns and without batch.
        actions: Lowest and highest values of the quantities that an action sets, by path, such as
            `{"scene.gravity": ((-2, -9.81, 0), (2, -9.81, 0))}`. The action is all of their numbers, flattened.
        observe: Observation [n] after a step, from a trajectory whose last frame is the present state.
        reward: Reward of a step, from the same.
        steps: Length of an episode.
        fps: Actions per second [1/s].
        substeps: Time steps per action.
        integrator: Time integrator.
        randomize: Values of quantities by path for an episode, from a generator seeded by `reset(seed=...)`.

    Returns:
        A `gymnasium.Env` with a `Box` of float32 for actions and one for observations; `env.unwrapped.trajectory` is
        the motion of the last step.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtra("gs.environment", "gym") from error
    if not actions:
        raise InvalidInput("actions", "{}", "give bounds by path, such as {'scene.gravity': (low, high)}")
    shapes = _shapes(scene, actions)
    lows, highs = (
        np.concatenate([np.broadcast_to(bounds[k], shapes[path]).ravel() for path, bounds in actions.items()])
        for k in range(2)
    )

    class Environment(gymnasium.Env[Any, Any]):
        """A scene that an agent acts on."""

        metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

        def __init__(self) -> None:
            self.action_space = gymnasium.spaces.Box(lows.astype(np.float32), highs.astype(np.float32))
            self.scene, self.count = scene, 0
            self.state: State | None = None
            self.trajectory = initial_trajectory(scene)  # of the last step
            first = self._observed(self.trajectory)
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, first.shape, np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            values = {} if randomize is None else randomize(self.np_random)
            self.scene = scene.with_values(values) if values else scene
            self.state, self.count, self.trajectory = None, 0, initial_trajectory(self.scene)
            return self._observed(self.trajectory), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            acted = self.scene.with_values(_split(np.asarray(action, dtype=np.float64), shapes))
            self.count += 1
            try:
                trajectory = self._advance(acted)
            except ArithmeticError as error:
                if not isinstance(error, GradsimError):
                    raise
                return np.zeros(self.observation_space.shape, np.float32), 0.0, True, False, {"error": str(error)}
            self.state, self.trajectory = trajectory.final, trajectory
            gained = float(reward(trajectory))
            return self._observed(trajectory), gained, False, self.count >= steps, {}

        @torch.no_grad()
        def _advance(self, acted: Scene) -> Trajectory:
            options: dict[str, Any] = {"substeps": substeps, "integrator": integrator, "start": self.state}
            return simulate(acted, frames=2, fps=fps, **options)

        @staticmethod
        @torch.no_grad()
        def _observed(trajectory: Trajectory) -> np.ndarray:
            seen = observe(trajectory)
            array = seen.detach().cpu().numpy() if isinstance(seen, torch.Tensor) else np.asarray(seen)
            return array.reshape(-1).astype(np.float32)

    return Environment()


def _shapes(scene: Scene, actions: Mapping[str, Bounds]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the quantities that an action sets, by path."""
    specs = {path: spec for path, _, spec in (*scene.quantities(), *scene.view_quantities())}
    for path in actions:
        if path not in specs:
            raise InvalidInput("actions", repr(path), f"the scene has {', '.join(specs)}")
    return {path: specs[path].shape for path in actions}


def _split(action: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Returns the values of an action by path."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    parts = np.split(action.reshape(-1), ends[:-1])
    return {path: part.reshape(shape) for (path, shape), part in zip(shapes.items(), parts, strict=True)}
