"""The camera's matrix against pixels computed by hand."""

import math

import numpy as np
import torch

import gradsim as gs
from gradsim.render.camera import projection

REAL = {"dtype": torch.float64, "device": torch.device("cpu")}


def pixel(camera, point, size):
    """x, y and depth of a point."""
    matrix, eye = projection(camera, size, **REAL)
    x = (matrix @ (torch.tensor(point, dtype=torch.float64) - eye)[..., None])[..., 0]
    return torch.cat([x[..., :2] / x[..., 2:], x[..., 2:]], -1)


def near(actual, expected):
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_hand_computed_pixels():
    camera = gs.Camera(eye=(0, 0, 5), target=(0, 0, 0), fov=90.0)
    near(pixel(camera, (0.0, 0.0, 0.0), (100, 200)), [100.0, 50.0, 5.0])
    near(pixel(camera, (0.0, 5.0, 0.0), (100, 200)), [100.0, 0.0, 5.0])  # up is the first row
    near(pixel(camera, (5.0, 0.0, 0.0), (100, 200)), [150.0, 50.0, 5.0])
    near(pixel(camera, (1.0, -2.0, 3.0), (100, 200)), [125.0, 100.0, 2.0])


def test_up_vector_of_a_camera_above():
    camera = gs.Camera(eye=(0, 4, 0), target=(0, 0, 0), up=(0, 0, -1), fov=90.0)
    near(pixel(camera, (1.0, 0.0, 2.0), (8, 8)), [5.0, 6.0, 4.0])


def test_pose_and_intrinsics_agree_with_target_and_field_of_view():
    eye, target, fov, size = np.array([1.0, 2.0, 3.0]), np.array([-0.5, 0.3, 0.2]), 37.0, (90, 120)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, (0, 1, 0))
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(forward, right), forward, eye], axis=1)
    focal = 45.0 / math.tan(math.radians(fov) / 2)
    lens = gs.Camera(pose=pose, fx=focal, fy=focal, cx=60.0, cy=45.0, resolution=size)
    plain = gs.Camera(eye=eye, target=target, fov=fov)
    for rendered in (size, (180, 240)):  # another size with the same aspect ratio scales the intrinsics
        for a, b in zip(projection(lens, rendered, **REAL), projection(plain, rendered, **REAL), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_intrinsics_scale_with_the_image():
    lens = gs.Camera(pose=np.eye(4), fx=50.0, fy=60.0, cx=10.0, cy=20.0, resolution=(40, 30))
    near(pixel(lens, (1.0, 1.0, 2.0), (40, 30)), [35.0, 50.0, 2.0])
    near(pixel(lens, (1.0, 1.0, 2.0), (80, 90)), [105.0, 100.0, 2.0])


def test_batch_equals_single_cameras():
    eyes = torch.tensor([[0.0, 1, 5], [2, 0, 3]], dtype=torch.float64)
    fovs = torch.tensor([[30.0], [40], [50]], dtype=torch.float64)
    matrix, eye = projection(gs.Camera(eye=eyes, target=(0, 0, 0), fov=fovs), (32, 48), **REAL)
    assert matrix.shape == (3, 2, 3, 3)
    assert eye.shape == (2, 3)
    one, _ = projection(gs.Camera(eye=eyes[1], target=(0, 0, 0), fov=fovs[2, 0]), (32, 48), **REAL)
    torch.testing.assert_close(matrix[2, 1], one, rtol=0, atol=1e-13)


def leaf(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def test_gradients_of_target_and_field_of_view():
    def matrix(eye, target, up, fov):
        return projection(gs.Camera(eye=eye, target=target, up=up, fov=fov), (32, 48), **REAL)

    values = ([0.3, 1.0, 4.0], [0.1, 0.2, -0.3], [0.1, 1.0, 0.2], 40.0)
    torch.autograd.gradcheck(matrix, tuple(map(leaf, values)))


def test_gradients_of_pose_and_intrinsics():
    def matrix(eye, spin, fx, fy, cx, cy):
        x, y, z = spin
        skew = torch.stack([0 * x, -z, y, z, 0 * x, -x, -y, x, 0 * x]).view(3, 3)
        rigid = torch.cat([torch.linalg.matrix_exp(skew), eye[:, None]], 1)
        pose = torch.cat([rigid, torch.tensor([[0.0, 0, 0, 1]], dtype=torch.float64)])
        camera = gs.Camera(pose=pose, fx=fx, fy=fy, cx=cx, cy=cy, resolution=(40, 30))
        return projection(camera, (32, 48), **REAL)

    values = ([0.3, 1.0, 4.0], [0.1, 0.2, -0.3], 50.0, 60.0, 15.0, 20.0)
    torch.autograd.gradcheck(matrix, tuple(map(leaf, values)))
