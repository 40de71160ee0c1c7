"""A nuisance: one way in which a scene or a video may be slightly wrong, with a prior standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from gradsim.scene.errors import OutOfRange, UnknownName, WrongShape
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import did_you_mean

SceneChange: TypeAlias = Callable[[Scene, torch.Tensor], Scene]
ImageChange: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Adjustment: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
TimeChange: TypeAlias = Literal["fps", "offset", "exposure"]

DIFFERENCE = 1e-3  # default step of a difference, in standard deviations

# What a user declares to be known only roughly, and the groups of nuisances that this includes. Every group may be
# named by itself too.
GROUPS: Mapping[str, tuple[str, ...]] = {
    # Pose and field of view. A scene is usually set up in the axes of its camera, so that a camera that is turned
    # unnoticed turns gravity and the ground in the scene.
    "camera": ("camera", "tilt"),
    "light": ("light", "color"),  # lights; gain, offset and gamma; colours of bodies, ground and background
    "color": ("color",),
    "shape": ("shape",),  # scale and aspect of bodies
    # Initial positions, rotations, velocities and spins, and the time from the start to the first frame. That time
    # shifts the positions, which look like an error of the start, and changes the velocities that are asked for.
    "start": ("start", "delay"),
    "delay": ("delay",),
    "tilt": ("tilt",),  # directions of gravity and of planes
    "gravity": ("gravity", "tilt"),  # its magnitude, which is also the scale of all lengths, and its direction
    "contact": ("contact", "tilt"),  # contact parameters; height of planes, and their tilt to gravity
    "time": ("time", "delay"),  # frame rate, exposure, time of the first frame
}


@dataclass(frozen=True, eq=False)
class Nuisance:
    """One way in which a scene or a video may be slightly wrong.

    Exactly one of `scene`, `image` and `time` is given. An amount of 0 is no change.

    Attributes:
        path: Its name, such as "camera.yaw" or "box.start.position.x".
        group: Key of `GROUPS` that includes it.
        unit: Unit of the amount. "%" is a hundred times the change of the logarithm for factors, and a hundredth of
            full white for colours. "log" is the change of the logarithm.
        sd: Prior standard deviation of the amount, in `unit`: a default for what is known roughly. Lengths are
            relative to the scene, so that the same scene in millimetres has the same relative uncertainty.
        text: Description of an amount in words.
        scene: Function (scene, amount [...]) -> changed copy of the scene. The amount's dimensions are a batch of
            worlds, which broadcasts with that of the scene's quantities.
        image: Function (rendered colours [..., T, H, W, 3], amount [...]) -> changed colours.
        time: Change of the times at which the motion is sampled: "fps" (relative error of the frame rate),
            "offset" (of the first frame [frames]) or "exposure" (fraction of a frame).
        changes: Paths of the quantities that it changes, such as "box.velocity[0]": none of them may be unknown.
        low: Smallest amount that has a meaning, such as 0 for an exposure.
        step: Amount for a finite difference, in `unit`.
        batched: Whether amounts may differ between the worlds of a batch; a mesh is the same in all of them.
        moves: Whether the motion depends on it; otherwise the images of the same trajectory change.
    """

    path: str
    group: str
    unit: str
    sd: float
    text: Callable[[float], str]
    scene: SceneChange | None = None
    image: ImageChange | None = None
    time: TimeChange | None = None
    changes: tuple[str, ...] = ()
    low: float = -float("inf")
    step: float = 0.0
    batched: bool = True
    moves: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.sd < float("inf"):
            raise OutOfRange(f"{self.path}.sd", self.sd, f"must be > 0 and finite [{self.unit}]")
        if self.step == 0.0:
            object.__setattr__(self, "step", DIFFERENCE * self.sd)

    def __repr__(self) -> str:
        return f"Nuisance({self.path!r}, sd={self.sd:.3g} {self.unit})"

    def describe(self, amount: float) -> str:
        """Returns an amount in words, such as "a camera yaw of 0.5 degrees"."""
        return self.text(amount)


def is_excluded(nuisance: Nuisance, excluded: Collection[str]) -> bool:
    """Whether a nuisance changes a quantity, or a component of one, that `excluded` contains.

    A path may end with "@" and the name of a trial.
    """
    for path in (given.partition("@")[0] for given in excluded):
        for own in (nuisance.path, *nuisance.changes):
            if own == path or own.startswith(path + "[") or path.startswith(own + "["):
                return True
    return False


def chosen(nuisances: Iterable[Nuisance], roughly: Collection[str]) -> tuple[Nuisance, ...]:
    """Returns the nuisances that are included in what is declared to be known roughly, such as ["camera", "start"].

    Raises:
        UnknownName: A word is not a key of `GROUPS`.
    """
    for word in roughly:
        if word not in GROUPS:
            raise UnknownName("roughly", repr(word), f"{did_you_mean(word, list(GROUPS))}use {', '.join(GROUPS)}")
    groups = {group for word in roughly for group in GROUPS[word]}
    return tuple(nuisance for nuisance in nuisances if nuisance.group in groups)


def batches(nuisances: Iterable[Nuisance]) -> list[tuple[Nuisance, ...]]:
    """Returns groups of nuisances that one batch of worlds can hold, each in a world of its own.

    Those of images, of the same trajectory, of the same motion and of times are separate batches. Those that change a
    mesh are batches of their own: it is the same in all worlds of a batch.
    """
    found: dict[Any, list[Nuisance]] = {}
    for nuisance in nuisances:
        single = not nuisance.batched
        kind = (nuisance.image is None, nuisance.time is None, nuisance.moves, nuisance.path if single else "")
        found.setdefault(kind, []).append(nuisance)
    return [tuple(group) for group in found.values()]


def apply(scene: Scene, nuisances: Sequence[Nuisance], values: Mapping[str, torch.Tensor]) -> Scene:
    """Returns a copy of a scene, changed by amounts [...] of nuisances by path; those of images and times are ignored.

    Raises:
        UnknownName: No nuisance has a path of `values`.
        WrongShape: Amounts of a nuisance that is not batched differ between worlds.
    """
    _check_paths(nuisances, values)
    for nuisance in nuisances:
        if nuisance.path in values and nuisance.scene is not None:
            amount = values[nuisance.path]
            scene = nuisance.scene(scene, amount if nuisance.batched else _single(nuisance, amount))
    return scene


def adjustment(nuisances: Sequence[Nuisance], values: Mapping[str, torch.Tensor]) -> Adjustment | None:
    """Returns the map of rendered colours [..., T, H, W, 3] for amounts [...] by path; None without any of images."""
    _check_paths(nuisances, values)
    changes = [(n.image, values[n.path]) for n in nuisances if n.image is not None and n.path in values]
    if not changes:
        return None

    def adjust(colors: torch.Tensor) -> torch.Tensor:
        for change, amount in changes:
            colors = change(colors, amount)
        return colors

    return adjust


def _check_paths(nuisances: Sequence[Nuisance], values: Mapping[str, torch.Tensor]) -> None:
    known = [nuisance.path for nuisance in nuisances]
    for path in values:
        if path not in known:
            raise UnknownName("nuisance", repr(path), f"{did_you_mean(path, known)}the scene has {', '.join(known)}")


def _single(nuisance: Nuisance, amount: torch.Tensor) -> torch.Tensor:
    """Returns the one amount of all worlds, []."""
    first = amount.detach().reshape(-1)[0]
    if bool((amount.detach() != first).any()):
        remedy = "must be the same in all worlds of a batch: a mesh and a time of a push are shared by them"
        raise WrongShape(nuisance.path, f"amounts of shape {tuple(amount.shape)} that differ", remedy)
    return first
