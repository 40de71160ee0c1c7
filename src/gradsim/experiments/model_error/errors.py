"""Errors of a scene or a recording: in which way the recorded scene differs from the fitted one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from gradsim.experiments.model_error.recording import Frames, Recording
from gradsim.experiments.model_error.scenes import FAMILIES, FPS
from gradsim.render.mitsuba import Mitsuba
from gradsim.scene.bodies import Cloth
from gradsim.scene.camera import Camera
from gradsim.scene.lights import AmbientLight, DirectionalLight
from gradsim.scene.looks import Look
from gradsim.scene.materials import Ground
from gradsim.scene.meshes import TetMesh, TriMesh, grid, tet_ball
from gradsim.scene.quantity import to_numpy
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import multiply
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import icosphere

RIGHT, WRONG, NONSENSE = "right", "wrong", "nonsense"
ALL = tuple(family.name for family in FAMILIES)
ON_GROUND = ("rigid", "soft")
DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class ModelError:
    """One way in which the recorded scene differs from the fitted one.

    Attributes:
        name: Its name in the table.
        kind: "right" for none, "wrong" for a small error, "nonsense" for a video of something else.
        scene: Change of the recorded scene.
        recording: Change of the recording.
        families: Names of the scenes in whose videos it is visible.
        held_out: Whether it was never looked at while the thresholds of the method were chosen.
    """

    name: str
    kind: str = WRONG
    scene: Callable[[Scene], Scene] = field(default=lambda scene: scene)
    recording: Recording = Recording()
    families: tuple[str, ...] = ALL
    held_out: bool = False


def _array(value: Any) -> np.ndarray:
    numbers = to_numpy(value)
    assert numbers is not None
    return np.asarray(numbers, dtype=np.float64)


def _camera(change: Callable[[Camera], Camera]) -> Callable[[Scene], Scene]:
    return lambda scene: replace(scene, camera=change(scene.camera))  # type: ignore[arg-type]


def _turned_camera(axis: str, degrees: float) -> Callable[[Scene], Scene]:
    """Rotates the camera about its own axes: "up" is yaw, "right" is pitch, "forward" is roll."""

    def change(camera: Camera) -> Camera:
        eye, target = _array(camera.eye), _array(camera.target)
        forward = target - eye
        right = np.cross(forward, (0.0, 1.0, 0.0))
        up = np.cross(right, forward)
        vectors = {"up": up, "right": right, "forward": forward}
        unit = vectors[axis] / np.linalg.norm(vectors[axis])
        turn = lambda x: _turned(x, unit, degrees * DEGREE)  # noqa: E731
        return replace(camera, target=eye + turn(forward), up=turn(up))

    return _camera(change)


def _turned(x: np.ndarray, axis: np.ndarray, angle: float) -> np.ndarray:
    along = axis * (axis @ x)
    return np.asarray(along + (x - along) * math.cos(angle) + np.cross(axis, x) * math.sin(angle))


def _moved_camera(fraction: float) -> Callable[[Scene], Scene]:
    """Moves the camera away from its target."""

    def change(camera: Camera) -> Camera:
        eye, target = _array(camera.eye), _array(camera.target)
        return replace(camera, eye=target + (eye - target) * (1 + fraction))

    return _camera(change)


def _body(change: Callable[[Any], Any]) -> Callable[[Scene], Scene]:
    return lambda scene: replace(scene, bodies=[change(body) for body in scene.bodies])


def _start(name: str, factor: float = 1.0, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Any:
    return _body(lambda body: replace(body, **{name: _array(getattr(body, name)) * factor + np.array(shift)}))


def _turned_body(degrees: float) -> Callable[[Scene], Scene]:
    half = 0.5 * degrees * DEGREE
    turn = torch.tensor((math.sin(half) * 0.6, 0.0, math.sin(half) * 0.8, math.cos(half)), dtype=torch.float64)
    return _body(lambda body: replace(body, rotation=multiply(turn, torch.tensor(_array(body.rotation))).numpy()))


def _look(change: Callable[[Look], Look]) -> Callable[[Scene], Scene]:
    return _body(lambda body: replace(body, look=change(body.look)))


def _colored(look: Look, change: Callable[[np.ndarray], np.ndarray]) -> Look:
    name = "color" if look.face_colors is None else "face_colors"
    return replace(look, **{name: change(_array(getattr(look, name))).clip(0.0, 1.0)})  # type: ignore[arg-type]


def _ground(**factors: float) -> Callable[[Scene], Scene]:
    def change(scene: Scene) -> Scene:
        assert scene.ground is not None
        values: Any = {name: _array(getattr(scene.ground, name)) * factor for name, factor in factors.items()}
        return replace(scene, ground=replace(scene.ground, **values))

    return change


def _raised_ground(height: float, degrees: float = 0.0) -> Callable[[Scene], Scene]:
    normal = _turned(np.array((0.0, 1.0, 0.0)), np.array((0.0, 0.0, 1.0)), degrees * DEGREE)
    return lambda scene: replace(scene, ground=replace(scene.ground, offset=height, normal=normal))  # type: ignore[type-var]


def _gravity(degrees: float, factor: float = 1.0) -> Callable[[Scene], Scene]:
    axis = np.array((0.0, 0.0, 1.0))
    return lambda scene: replace(scene, gravity=_turned(_array(scene.gravity), axis, degrees * DEGREE) * factor)


def _lights(ambient: float = 1.0, sun: float = 1.0, degrees: float = 0.0) -> Callable[[Scene], Scene]:
    def change(scene: Scene) -> Scene:
        lights: list[Any] = []
        for light in scene.lights:
            if isinstance(light, AmbientLight):
                lights.append(replace(light, intensity=_array(light.intensity) * ambient))
            elif isinstance(light, DirectionalLight):
                direction = _turned(_array(light.direction), np.array((1.0, 0.0, 0.0)), degrees * DEGREE)
                lights.append(replace(light, intensity=_array(light.intensity) * sun, direction=direction))
        return replace(scene, lights=lights)

    return change


def _scaled(factors: tuple[float, float, float]) -> Callable[[Scene], Scene]:
    """Scales the shape of the bodies; their masses stay."""

    def change(body: Any) -> Any:
        vertices = body.mesh.vertices * np.array(factors)
        if isinstance(body.mesh, TetMesh):
            return replace(body, mesh=TetMesh(vertices, body.mesh.tets), density=body.density / math.prod(factors))
        return replace(body, mesh=TriMesh(vertices, body.mesh.faces))

    return _body(change)


def _other_body(scene: Scene) -> Scene:
    """Replaces the body by one of another shape with the same start."""
    (body,) = scene.bodies
    if isinstance(body, Rigid):
        return replace(scene, bodies=[replace(body, mesh=icosphere(0.25, 2), look=Look(color=(0.3, 0.6, 0.5)))])
    if isinstance(body, Cloth):
        return replace(scene, bodies=[replace(body, mesh=grid((1.2, 0.3), (8, 2)), look=Look(color=(0.3, 0.6, 0.5)))])
    return replace(scene, bodies=[replace(body, mesh=tet_ball(0.28, 4))])  # type: ignore[type-var]


def _unrelated(scene: Scene) -> Scene:
    """Another body that moves in another way."""
    body = Rigid(
        "other",
        icosphere(0.22, 2),
        mass=1.0,
        position=(0.7, 0.4, 0.2),
        velocity=(-1.6, 2.0, 0.0),
        look=Look(color=(0.2, 0.3, 0.8)),
    )
    return replace(scene, bodies=[body], ground=scene.ground and Ground(ke=4000.0, kd=5.0, look=scene.ground.look))


def _bars(frames: Frames, rng: np.random.Generator) -> Frames:
    """A test pattern: colour bars with a moving stripe."""
    count, height, width = frames.shape[:3]
    colors = torch.tensor(np.array([(r, g, b) for r in (0.1, 0.9) for g in (0.1, 0.9) for b in (0.1, 0.9)]))
    pattern = colors[torch.arange(width) * 8 // width].expand(count, height, width, 3).clone()
    for k in range(count):
        pattern[k, (2 * k) % height : (2 * k) % height + 4] = 0.5
    return pattern


def _noise_only(frames: Frames, rng: np.random.Generator) -> Frames:
    return torch.tensor(rng.uniform(0.0, 1.0, tuple(frames.shape)))


def _vignetted(frames: Frames, rng: np.random.Generator) -> Frames:
    axis = torch.linspace(-1.0, 1.0, frames.shape[1], dtype=frames.dtype)
    return frames * (1.0 - 0.1 * (axis[:, None] ** 2 + axis**2) / 2)[..., None]


def _dropped(frames: Frames, rng: np.random.Generator) -> Frames:
    """One frame is missing; the last one is repeated."""
    lost = len(frames) // 2
    return torch.cat([frames[:lost], frames[lost + 1 :], frames[-1:]])


def _occluded(frames: Frames, rng: np.random.Generator) -> Frames:
    """A dark bar passes in front of the scene."""
    frames = frames.clone()
    for k in range(len(frames)):
        left = int((k / len(frames)) * frames.shape[2])
        frames[k, :, left : left + 3] = 0.1
    return frames


def _image(edit: Callable[[Frames], Frames]) -> Recording:
    return Recording(edit=lambda frames, rng: edit(frames))


YAW = _turned_camera("up", 0.5)
RIGHT_MODEL = ModelError("none", RIGHT)

ERRORS: tuple[ModelError, ...] = (
    ModelError("camera yaw 0.5 degrees", scene=YAW),
    ModelError("camera pitch 0.5 degrees", scene=_turned_camera("right", 0.5)),
    ModelError("camera roll 0.5 degrees", scene=_turned_camera("forward", 0.5)),
    ModelError("camera 1 % farther", scene=_moved_camera(0.01)),
    ModelError("field of view 1 %", scene=_camera(lambda c: replace(c, fov=_array(c.fov) * 1.01))),
    ModelError("position 1 cm", scene=_start("position", shift=(0.006, 0.006, -0.005))),
    ModelError("rotation 1 degree", scene=_turned_body(1.0)),
    ModelError("velocity 0.03 m/s along z", scene=_start("velocity", shift=(0.0, 0.0, 0.03))),
    ModelError("velocity 1 %", scene=_start("velocity", 1.01), families=ON_GROUND),
    ModelError("spin 3 %", scene=_start("angular_velocity", 1.03), families=("rigid",)),
    ModelError("gravity tilted 0.5 degrees", scene=_gravity(0.5)),
    ModelError("gravity 1 %", scene=_gravity(0.0, 1.01)),
    ModelError("ke 50 %", scene=_ground(ke=1.5), families=ON_GROUND),
    ModelError("kf 50 %", scene=_ground(kf=1.5), families=ON_GROUND),
    ModelError("ground 5 mm higher", scene=_raised_ground(0.005), families=ON_GROUND),
    ModelError("ground tilted 0.5 degrees", scene=_raised_ground(0.0, 0.5), families=ON_GROUND),
    ModelError("light 20 % darker", scene=_lights(0.8, 0.8)),
    ModelError("sun 10 % brighter", scene=_lights(1.0, 1.1)),
    ModelError("light turned by 10 degrees", scene=_lights(degrees=10.0), families=ON_GROUND),
    ModelError("gain 5 %", recording=_image(lambda v: 1.05 * v)),
    ModelError("offset 2 %", recording=_image(lambda v: v + 0.02)),
    ModelError("gamma 1.1", recording=_image(lambda v: v.clamp_min(0.0) ** 1.1)),
    ModelError("body 5 % darker", scene=_look(lambda look: _colored(look, lambda c: 0.95 * c))),
    ModelError("other colours", scene=_look(lambda look: _colored(look, lambda c: c[..., ::-1]))),
    ModelError("background 3 % darker", scene=lambda scene: replace(scene, background=_array(scene.background) * 0.97)),
    ModelError("shape 2 % larger", scene=_scaled((1.02, 1.02, 1.02))),
    ModelError("shape 3 % longer", scene=_scaled((1.03, 1.0, 1.0))),
    ModelError("half-frame shutter", recording=Recording(shutter=0.5)),
    ModelError("frame rate 1 %", recording=Recording(fps=FPS * 1.01)),
    ModelError("first frame a quarter late", recording=Recording(delay=0.25)),
    ModelError("8 bit and yaw", scene=YAW, recording=Recording(codec="8 bit")),
    ModelError("H.264 and yaw", scene=YAW, recording=Recording(codec="h264")),
    ModelError(
        "H.264 and velocity", scene=_start("velocity", shift=(0.0, 0.0, 0.05)), recording=Recording(codec="h264")
    ),
    ModelError("path tracer with shadows", recording=Recording(renderer=Mitsuba(samples=64)), families=("rigid",)),
    ModelError("soft body drag", scene=_body(lambda body: replace(body, drag=1.1)), families=("cloth",)),
    ModelError(
        "stiffness 30 %",
        scene=_body(lambda b: replace(b, material=_stiffer(b.material, 1.3))),
        families=("soft",),
    ),
    ModelError("pushes 3 % stronger", scene=_body(lambda body: _pushed(body, 1.03)), families=("rigid",)),
    ModelError("reversed", NONSENSE, recording=_image(lambda v: v.flip(0))),
    ModelError("white noise", NONSENSE, recording=Recording(edit=_noise_only)),
    ModelError("test pattern", NONSENSE, recording=Recording(edit=_bars)),
    ModelError("other body", NONSENSE, scene=_other_body),
    ModelError("unrelated video", NONSENSE, scene=_unrelated),
    ModelError("still video", NONSENSE, recording=_image(lambda v: v[:1].expand(v.shape))),
    ModelError("vignetting 10 %", recording=Recording(edit=_vignetted), held_out=True),
    ModelError("rolling shutter", recording=Recording(rolling=0.8), held_out=True),
    ModelError("dropped frame", recording=Recording(edit=_dropped), held_out=True),
    ModelError("camera shake 3 mm", recording=Recording(shake=0.003), held_out=True),
    ModelError("highlights", scene=_look(lambda look: replace(look, specular=0.3)), families=ON_GROUND, held_out=True),
    ModelError("passing bar", recording=Recording(edit=_occluded), held_out=True),
    ModelError("mirrored", NONSENSE, recording=_image(lambda v: v.flip(2)), held_out=True),
)


def _stiffer(material: Any, factor: float) -> Any:
    return replace(material, lam=_array(material.lam) * factor)


def _pushed(body: Any, factor: float) -> Any:
    def scaled(push: Any) -> Any:
        name = "force" if push.impulse is None else "impulse"
        return replace(push, **{name: _array(getattr(push, name)) * factor})

    return replace(body, pushes=[scaled(push) for push in body.pushes])
