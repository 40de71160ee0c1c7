"""Balls: mass properties, surface, rendering, and errors."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs

F64, CPU = torch.float64, torch.device("cpu")


def test_mass_properties_are_those_of_the_sphere():
    radius = torch.tensor([0.1, 0.3], dtype=F64)
    mass, center, inertia = gs.Ball("ball", radius=radius, density=200.0).mass_properties(F64, CPU)
    expected = 200.0 * 4 / 3 * math.pi * radius**3
    assert torch.allclose(mass, expected, rtol=1e-14)
    assert float(center.abs().max()) == 0.0
    assert torch.allclose(inertia, (0.4 * expected * radius**2)[:, None, None] * torch.eye(3, dtype=F64), rtol=1e-14)
    shell = 2 / 3 * 0.5 * 0.1**2 * np.eye(3)
    assert np.array_equal(gs.Ball("ball", radius=0.1, mass=0.5, inertia=shell).mass_properties(F64, CPU).inertia, shell)


def scene_of(radius, **look):
    camera = gs.Camera(eye=(0.0, 0.0, 20.0), target=(0.0, 0.0, 0.0), fov=12.0)
    ball = gs.Ball("ball", radius=radius, mass=1.0, angular_velocity=(1.0, 2.0, 3.0), look=gs.Look(**look))
    return gs.Scene([ball], gravity=(0.0, 0.0, 0.0), camera=camera, background=(0.0, 0.0, 0.0))


def test_the_silhouette_has_the_area_of_the_disc_for_every_rotation():
    scene = scene_of(1.0, color=(1.0, 1.0, 1.0), lit=False, smooth=0.0)
    video = gs.render(scene, gs.simulate(scene, frames=8, fps=3.0), size=(128, 128))
    pixel = 2 * 20.0 * math.tan(math.radians(6.0)) / 128  # [m]
    areas = video.mean(-1).sum((-1, -2)) * pixel**2
    outline = math.pi / (1 - 1.0 / 20.0**2)  # of the tangent cone, at the distance of the center [m^2]
    assert areas.numpy() == pytest.approx(outline, rel=2e-3)
    assert float(areas.mean()) == pytest.approx(outline, rel=5e-4)


def test_a_radius_with_gradient_gives_the_same_image():
    plain, tensor = scene_of(0.8), scene_of(torch.tensor(0.8, dtype=F64, requires_grad=True))
    images = [gs.render(scene, gs.simulate(scene, frames=2), size=(32, 32)).detach() for scene in (plain, tensor)]
    assert float((images[0] - images[1]).abs().max()) < 1e-9
    batch = scene_of(torch.tensor([0.4, 0.8], dtype=F64))
    assert torch.allclose(gs.render(batch, gs.simulate(batch, frames=2), size=(32, 32))[1], images[0], atol=1e-9)


def test_image_gradient_of_the_radius():
    radius = torch.tensor(0.8, dtype=F64, requires_grad=True)

    def brightness(value):
        scene = scene_of(value, color=(1.0, 1.0, 1.0), lit=False)
        return gs.render(scene, gs.simulate(scene, frames=1), size=(32, 32)).sum()

    (gradient,) = torch.autograd.grad(brightness(radius), radius)
    with torch.no_grad():
        difference = (brightness(radius + 1e-5) - brightness(radius - 1e-5)) / 2e-5
    assert float(gradient) == pytest.approx(float(difference), rel=1e-5)


def test_a_plain_ball_does_not_rotate_in_images():
    scene = scene_of(1.0, color=(0.8, 0.2, 0.2))
    video = gs.render(scene, gs.simulate(scene, frames=3, fps=2.0), size=(32, 32))
    assert torch.equal(video[0], video[1])


def test_errors_name_what_a_ball_has():
    with pytest.raises(gs.InvalidInput, match=r"ball\.radius = 0: must be > 0"):
        gs.Ball("ball", radius=0.0, mass=1.0)
    with pytest.raises(gs.InvalidInput, match=r"ball\.mass"):
        gs.Ball("ball", radius=0.1, mass=gs.per_element(np.ones(642)))
    with pytest.raises(TypeError, match="size"):
        gs.Ball("ball", radius=0.1, mass=1.0, size=(1.0, 1.0, 1.0))


def test_a_radius_is_an_unknown_by_its_path():
    scene = gs.Scene([gs.Ball("ball", radius=gs.unknown(0.1, low=0.05, high=0.2), density=100.0)], gs.Ground())
    assert list(scene.unknowns) == ["ball.radius"]
    radii = torch.tensor([0.1, 0.15], dtype=F64)
    motion = gs.simulate(scene.with_values({"ball.radius": radii}), frames=1)["ball"]
    distance = (motion.vertices - motion.position[..., None, :]).norm(dim=-1).mean((-1, -2))
    assert torch.allclose(distance, radii, rtol=3e-3)
