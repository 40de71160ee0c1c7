"""The interface of renderers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

Frames: TypeAlias = "slice | Sequence[int] | None"


class Renderer(ABC):
    """Turns a scene and a trajectory into a video. Renderers are frozen dataclasses whose fields are their options."""

    @abstractmethod
    def render(
        self,
        scene: Scene,
        trajectory: Trajectory,
        size: tuple[int, int],
        frames: Frames = None,
        *,
        alpha: bool = False,
        depth: bool = False,
    ) -> Any:
        """Returns what `gs.render` returns, for the same arguments."""

    @classmethod
    def names(cls) -> list[str]:
        """Class names of all renderers that can be instantiated."""
        names = [name for kind in cls.__subclasses__() for name in kind.names()]
        return names if inspect.isabstract(cls) else [cls.__name__, *names]
