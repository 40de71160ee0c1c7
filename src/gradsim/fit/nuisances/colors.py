"""Nuisances of colours: of the video, the background, bodies and the ground."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import added, multiplied, with_body, with_obstacle
from gradsim.fit.nuisances.nuisance import ImageChange, Nuisance, SceneChange
from gradsim.scene.lights import WHITE
from gradsim.scene.looks import GREY, Checker, Look
from gradsim.scene.quantity import unwrap
from gradsim.scene.scene import Scene

COLOR = 5.0  # of white, or relative for factors [%]
TINY = 1e-12  # smallest colour with a gamma

CHANNELS = {"r": ("red", (1.0, 0.0, 0.0)), "g": ("green", (0.0, 1.0, 0.0)), "b": ("blue", (0.0, 0.0, 1.0))}


def color_nuisances(scene: Scene) -> Iterator[Nuisance]:
    if scene.camera is None:
        return
    yield from _video_nuisances()
    background: Any = scene.background
    if background.ndim > 2:
        change = _background(lambda given, a: multiplied(given, a / 100, (1, 1, 1)))
        yield _color("scene.background.gain", "background", change, "scene.background")
    else:
        for channel, (name, axis) in CHANNELS.items():
            change = _background(_channel_shift(axis))
            yield _color(f"scene.background.{channel}", f"background's {name}", change, "scene.background", "point")
    for name, shape in scene.obstacles.items():
        if shape.look is not None:
            yield from _look_nuisances(name, shape.look, with_obstacle, lambda scene, name: scene.obstacles[name].look)
    for body in scene.bodies:
        look = getattr(body, "look", None)
        if look is not None:
            yield from _look_nuisances(body.name, look, with_body, lambda scene, name: scene[name].look)


def _color(path: str, phrase: str, change: SceneChange, changes: str, kind: str = "gain") -> Nuisance:
    text = wording.larger(phrase, words=("brighter", "darker")) if kind == "gain" else _points(phrase)
    return Nuisance(path, "color", "%", COLOR, text, scene=change, changes=(changes,), moves=False)


def _points(phrase: str) -> wording.Text:
    return lambda a: f"{wording.number(abs(a))} % of white {'more' if a >= 0 else 'less'} in the {phrase}"


def _channel_shift(axis: tuple[float, ...]) -> Callable[[Any, torch.Tensor], Any]:
    """Amount of one channel, in hundredths of white."""
    return lambda given, amount: added(given, amount / 100, axis)


def _color_shift(shift: Callable[[Any, torch.Tensor], Any]) -> Callable[[Any, torch.Tensor], dict[str, Any]]:
    return lambda look, amount: {"color": shift(_plain_color(look), amount)}


def _background(change: Callable[[Any, torch.Tensor], Any]) -> SceneChange:
    return lambda scene, amount: dataclasses.replace(scene, background=change(scene.background, amount))


def _look_nuisances(name: str, look: Any, replaced: Any, look_of: Callable[[Scene, str], Any]) -> Iterator[Nuisance]:
    """Colours of a surface: red, green and blue of a plain one, a gain for textures and several colours."""

    def scene_change(change: Callable[[Any, torch.Tensor], dict[str, Any]]) -> SceneChange:
        def result(scene: Scene, amount: torch.Tensor) -> Scene:
            own = look_of(scene, name)
            copy: Scene = replaced(scene, name, look=dataclasses.replace(own, **change(own, amount)))
            return copy

        return result

    plain = isinstance(look, Look) and all(
        getattr(look, field) is None for field in ("texture", "vertex_colors", "face_colors")
    )
    if not plain:
        field = _colored_field(look)
        path, phrase = f"{name}.look.gain", f"surface of {name}"
        yield _color(path, phrase, scene_change(_gain), f"{name}.look.{field}")
        return
    for channel, (word, axis) in CHANNELS.items():
        change = scene_change(_color_shift(_channel_shift(axis)))
        yield _color(f"{name}.look.{channel}", f"{word} of {name}", change, f"{name}.look.color", "point")


def _plain_color(look: Look) -> Any:
    if look.color is not None:
        return look.color
    return np.array(GREY if look.texture is None else WHITE)


def _colored_field(look: Any) -> str:
    """The field of a look that its colours are multiplied in."""
    if isinstance(look, Checker):
        return "colors"
    return next((field for field in ("vertex_colors", "face_colors") if getattr(look, field) is not None), "color")


def _gain(look: Any, amount: torch.Tensor) -> dict[str, Any]:
    field = _colored_field(look)
    value = _plain_color(look) if field == "color" else getattr(look, field)
    return {field: multiplied(value, amount / 100, unwrap(value).shape[-1 if field == "color" else -2 :])}


def _video_nuisances() -> Iterator[Nuisance]:
    for channel, (name, axis) in CHANNELS.items():
        text = wording.larger(f"{name} gain of the video")
        yield Nuisance(f"video.gain.{channel}", "color", "%", COLOR, text, image=_channel_gain(axis), moves=False)
    text = wording.of("gamma of the video")
    yield Nuisance(
        "video.gamma",
        "color",
        "%",
        COLOR,
        lambda a: text(math.exp(a / 100)),
        image=_gamma,
        moves=False,
    )
    yield Nuisance(
        "video.black_level", "color", "%", COLOR, _points("video's black level"), image=_black_level, moves=False
    )


def over_images(amount: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """Amounts [...] of a batch with the trailing dimensions of images, [..., 1, 1, 1, 1]; one amount as it is."""
    return amount.to(colors).reshape((*amount.shape, *[1] * (4 if amount.ndim else 0)))


def _channel_gain(axis: tuple[float, ...]) -> ImageChange:
    return lambda colors, a: colors * torch.exp(over_images(a / 100, colors) * torch.tensor(axis).to(colors))


def _gamma(colors: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    positive = colors.clamp_min(TINY)  # smaller colours are only shifted
    return positive ** torch.exp(over_images(amount / 100, colors)) + (colors - positive)


def _black_level(colors: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    return colors + over_images(amount / 100, colors)
