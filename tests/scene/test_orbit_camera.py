"""Cameras that are given by their distance from the target and by angles."""

import math

import pytest
import torch

import gradsim as gs
from gradsim.render.camera import projection
from gradsim.scene.errors import InvalidInput

SIZE = (480, 640)


def seen(camera, point):
    """Pixel (x, y) at which a point is seen."""
    matrix, eye = projection(camera, SIZE, torch.float64, torch.device("cpu"))
    image = matrix @ (torch.as_tensor(point, dtype=torch.float64) - eye)
    return (image[:2] / image[2]).tolist()


def test_a_level_camera_looks_along_minus_z():
    orbit = gs.Camera(target=(0.1, 0.2, 0.3), distance=2.0, fov=40)
    same = gs.Camera(eye=(0.1, 0.2, 2.3), target=(0.1, 0.2, 0.3), fov=40)
    for point in ((0.0, 0.0, 0.0), (0.5, -0.3, 0.4)):
        assert seen(orbit, point) == pytest.approx(seen(same, point), abs=1e-9)


def test_angles_move_the_camera_about_its_target():
    raised = gs.Camera(target=(0, 0, 0), distance=2.0, pitch=math.pi / 6).with_eye()
    assert raised.eye.tolist() == pytest.approx([0.0, 1.0, math.sqrt(3)])
    right = gs.Camera(target=(0, 0, 0), distance=2.0, yaw=math.pi / 2).with_eye()
    assert right.eye.tolist() == pytest.approx([2.0, 0.0, 0.0], abs=1e-12)
    # The top of the camera leans to the right, so what is above appears on the left.
    assert seen(gs.Camera(target=(0, 0, 0), distance=2.0, roll=0.1), (0.0, 0.5, 0.0))[0] < SIZE[1] / 2
    target = gs.Camera(target=(0.2, 0.1, 0), distance=2.0, pitch=0.3, yaw=-0.2, roll=0.1)
    assert seen(target, (0.2, 0.1, 0.0)) == pytest.approx([SIZE[1] / 2, SIZE[0] / 2])


@pytest.mark.parametrize("name", ["distance", "view_height", "fov", "pitch", "yaw", "roll"])
def test_pixels_are_differentiable_in_distance_and_angles(name):
    values = {"distance": 2.0, "pitch": 0.3, "yaw": -0.2, "roll": 0.1, "fov": 40.0}
    if name in ("view_height", "fov"):
        values = {**values, "distance": None, "view_height": 1.5}

    def pixels(value):
        camera = gs.Camera(target=(0.1, 0.0, 0.0), **{**values, name: value})
        matrix, eye = projection(camera, SIZE, torch.float64, torch.device("cpu"))
        image = matrix @ (torch.tensor([0.4, -0.3, 0.2], dtype=torch.float64) - eye)
        return image[:2] / image[2]

    value = torch.tensor(values[name], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(pixels, value)


def test_the_scale_of_a_view_height_does_not_depend_on_the_lens():
    lens = {"fx": 500.0, "fy": 500.0, "cx": 320.0, "cy": 240.0, "resolution": SIZE}
    for intrinsics in ({"fov": 20.0}, {"fov": 70.0}, lens):
        camera = gs.Camera(target=(0.1, 0.0, 0.0), view_height=1.2, pitch=0.2, **intrinsics)
        x, _ = seen(camera, (0.3, 0.0, 0.0))
        assert x == pytest.approx(SIZE[1] / 2 + 0.2 * SIZE[0] / 1.2)
    assert gs.Camera(target=(0, 0, 0), view_height=2.0, fov=90).with_eye().eye.tolist() == pytest.approx([0, 0, 1])


def test_scene_files_keep_an_unknown_pitch(tmp_path):
    pitch = gs.unknown(0.0, prior=gs.Normal(0.0, 0.1), nuisance=True)
    ball = gs.Ball("ball", radius=0.05, mass=0.1)
    scene = gs.Scene(
        [ball], camera=gs.Camera(target=(0, 0, 0), distance=gs.unknown(2.0, low=1.0, high=4.0), pitch=pitch)
    )
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert list(loaded.unknowns) == ["camera.distance", "camera.pitch"]
    assert loaded.unknowns["camera.pitch"].nuisance
    assert not loaded.unknowns["camera.distance"].nuisance


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"target": (0, 0, 0), "distance": 2.0, "eye": (0, 0, 1)}, "camera.distance"),
        ({"target": (0, 0, 0), "eye": (0, 0, 1), "pitch": 0.1}, "camera.pitch"),
        ({"distance": 2.0}, "camera.eye/target"),
        ({"target": (0, 0, 0), "distance": -1.0}, "camera.distance"),
        ({"target": (0, 0, 0), "distance": 1.0, "view_height": 1.0}, "camera.view_height"),
        ({"target": (0, 0, 0), "view_height": 1.0, "eye": (0, 0, 1)}, "camera.view_height"),
    ],
)
def test_contradictions_are_named(arguments, name):
    with pytest.raises(InvalidInput, match=name):
        gs.Camera(**arguments)
