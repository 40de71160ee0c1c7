"""Cameras, lights and looks: invalid input is rejected, and the view does not affect the physics."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType

BOX = gs.meshes.box(1.0)
LENS = {"fx": 100.0, "fy": 100.0, "cx": 64.0, "cy": 64.0, "resolution": (128, 128)}


def camera(**options):
    return gs.Camera(**{"eye": (0, 0, 5), "target": (0, 0, 0), **options})


def pose(**options):
    return gs.Camera(**{"pose": np.eye(4), **options})


def cube(**look):
    return gs.Rigid("cube", BOX, mass=1.0, look=gs.Look(**look))


def scaled(factor):
    matrix = np.eye(4)
    matrix[:3, :3] *= factor
    return matrix


CASES = {
    "no eye": (lambda: gs.Camera(), InvalidInput, r"camera\.eye/target = neither: .*or a pose"),
    "no target": (lambda: gs.Camera(eye=(0, 0, 5)), InvalidInput, r"camera\.eye/target = eye"),
    "eye and pose": (lambda: camera(pose=np.eye(4)), InvalidInput, r"camera\.pose = given with eye, target"),
    "fov and focal length": (lambda: camera(fov=40.0, **LENS), InvalidInput, r"camera\.fov = given with fx"),
    "incomplete intrinsics": (lambda: camera(fx=100.0), InvalidInput, r"camera\.fx/fy/cx/cy = only fx"),
    "eye at target": (lambda: camera(eye=(0, 0, 0)), InvalidInput, r"camera\.target = equal to camera\.eye"),
    "up along the view": (lambda: camera(up=(0, 0, 2)), InvalidInput, r"camera\.up = parallel to the view"),
    "no up": (lambda: camera(up=(0, 0, 0)), OutOfRange, r"camera\.up"),
    "fov in the wrong range": (lambda: camera(fov=180.0), OutOfRange, r"camera\.fov = 180: must be < 180 \[degrees\]"),
    "NaN eye": (lambda: camera(eye=(0, float("nan"), 5)), NotFinite, r"camera\.eye"),
    "eye of two numbers": (lambda: camera(eye=(0, 5)), WrongShape, r"camera\.eye"),
    "batches that differ": (
        lambda: camera(eye=np.ones((2, 3)), target=np.zeros((3, 3))),
        WrongShape,
        r"camera\.eye/target/up",
    ),
    "negative near": (lambda: camera(near=-1.0), OutOfRange, r"camera\.near = -1\.0"),
    "scaled pose": (lambda: pose(pose=scaled(1.01)), InvalidInput, r"camera\.pose = R R' is off"),
    "mirrored pose": (lambda: pose(pose=np.diag([1.0, 1, -1, 1])), InvalidInput, r"camera\.pose = a reflection"),
    "pose by rows": (lambda: pose(pose=np.eye(4) + np.eye(4, k=-3)), InvalidInput, r"camera\.pose = last row"),
    "small pose": (lambda: pose(pose=np.eye(3)), WrongShape, r"camera\.pose = shape \(3, 3\)"),
    "bad resolution": (lambda: pose(**{**LENS, "resolution": (0, 5)}), OutOfRange, r"camera\.resolution = \(0, 5\)"),
    "no direction": (lambda: gs.DirectionalLight((0, 0, 0)), OutOfRange, r"DirectionalLight\.direction"),
    "negative light": (lambda: gs.AmbientLight(-1.0), OutOfRange, r"AmbientLight\.intensity = -1"),
    "8-bit colour": (lambda: cube(color=(255, 0, 0)), OutOfRange, r"Look\.color = 255: .*by 255"),
    "two colours": (
        lambda: cube(color=(1, 0, 0), face_colors=np.ones((12, 3))),
        InvalidInput,
        r"Look\.color = color and face_colors",
    ),
    "colours of other vertices": (
        lambda: cube(vertex_colors=np.ones((9, 3))),
        WrongShape,
        r"cube\.look\.vertex_colors = shape \(9, 3\): its body has 8 vertices",
    ),
    "colours of other faces": (lambda: cube(face_colors=np.ones((9, 3))), WrongShape, r"cube\.look\.face_colors"),
    "uv of other faces": (
        lambda: cube(texture=np.ones((2, 2, 3)), uv=np.zeros((11, 3, 2))),
        WrongShape,
        r"cube\.look\.uv = .*its body has 12 faces",
    ),
    "uv without texture": (lambda: cube(uv=np.zeros((8, 2))), InvalidInput, r"Look\.uv"),
    "grey texture": (lambda: cube(texture=np.ones((2, 2))), WrongShape, r"Look\.texture = shape \(2, 2\)"),
    "smooth out of range": (lambda: cube(smooth=200.0), OutOfRange, r"Look\.smooth = 200"),
    "small shininess": (lambda: cube(shininess=0.5), OutOfRange, r"Look\.shininess = 0\.5: must be >= 1"),
    "type of look": (
        lambda: gs.Rigid("cube", BOX, mass=1.0, look="red"),
        WrongType,
        r"cube\.look = str: must be a gs\.Look",
    ),
    "look on a ground": (lambda: gs.Ground(look=gs.Look()), WrongType, r"Ground\.look = Look: must be a gs\.Checker"),
    "look on a static shape": (lambda: gs.StaticSphere(look=gs.Checker()), WrongType, r"StaticSphere\.look"),
    "tile without size": (lambda: gs.Checker(tile=0.0), OutOfRange, r"Checker\.tile = 0"),
    "thin springs": (
        lambda: gs.Springs("net", np.eye(3), [[0, 1]], thickness=0.0),
        OutOfRange,
        r"net\.thickness",
    ),
    "type of camera": (lambda: gs.Scene([cube()], camera="front"), WrongType, r"scene\.camera = str"),
    "one light": (lambda: gs.Scene([cube()], lights=gs.AmbientLight()), WrongType, r"scene\.lights = AmbientLight"),
    "type of light": (lambda: gs.Scene([cube()], lights=[1.0]), WrongType, r"scene\.lights\[0\] = float"),
    "8-bit background": (lambda: gs.Scene([cube()], background=(0, 0, 128)), OutOfRange, r"scene\.background = 128"),
    "grey background": (lambda: gs.Scene([cube()], background=0.5), WrongShape, r"scene\.background"),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_is_rejected(case):
    build, error, message = CASES[case]
    with pytest.raises(error, match=message):
        build()


def test_tensors_may_exceed_the_range_of_colours():
    assert cube(color=torch.tensor([1.2, -0.1, 0.0])).look.color.max() > 1


def test_the_view_does_not_affect_the_physics():
    eye = torch.zeros(3, dtype=torch.float32, requires_grad=True)
    scene = gs.Scene(
        [cube(color=torch.ones(5, 3, dtype=torch.float32))],
        gs.Ground(look=gs.Checker()),
        camera=camera(eye=eye, target=(0, 0, -1)),
    )
    assert not any("look" in path or "camera" in path or "light" in path for path, _, _ in scene.quantities())
    trajectory = gs.simulate(scene, frames=2, fps=30, substeps=20)
    assert trajectory.vertices.shape == (2, 8, 3)
    assert trajectory.vertices.dtype == torch.float64
    assert not trajectory.vertices.requires_grad


def test_paths_of_the_view():
    texture = np.zeros((4, 5, 3))
    shapes = {"ball": gs.StaticSphere(look=gs.Look(color=(1, 0, 0))), "wall": gs.StaticBox(look=None)}
    scene = gs.Scene([cube(texture=texture)], gs.Ground(look=gs.Checker()), shapes=shapes, camera=camera())
    found = {path: (np.shape(value), spec.shape) for path, value, spec in scene.view_quantities()}
    for path, shape in {
        "camera.eye": (3,),
        "camera.fov": (),
        "lights[0].intensity": (),
        "lights[1].direction": (3,),
        "ground.look.colors": (2, 3),
        "ball.look.color": (3,),
        "cube.look.texture": (4, 5, 3),
        "scene.background": (3,),
    }.items():
        assert found[path] == (shape, shape)
    assert not any(path.startswith("wall") for path in found)
