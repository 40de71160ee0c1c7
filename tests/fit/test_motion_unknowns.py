"""Estimation and control through prescribed motion, and through the place and size of static shapes."""

import numpy as np
import torch

import gradsim as gs

F64 = torch.float64
CAMERA = gs.Camera(eye=(0.0, 0.3, 2.0), target=(0.0, 0.1, 0.0), fov=35.0)


def bounce(radius, height, lift):
    """A ball that falls on a sphere which is lifted meanwhile."""
    ball = gs.Ball("ball", radius=0.05, mass=0.1, position=(0.03, 0.4, 0.01))
    motion = gs.Motion(gs.Signal([(0.0, 0.0, 0.0), (0.0, lift, 0.0)]))
    hill = gs.StaticSphere(ke=500.0, kd=0.5, radius=radius, position=(0.0, height, 0.0), motion=motion)
    return gs.Scene([ball], shapes={"hill": hill}, camera=CAMERA)


TIME = {"fps": 30.0, "substeps": 64}


def test_radius_height_and_lift_of_a_moving_sphere_follow_from_states():
    true = gs.simulate(bounce(0.2, 0.02, 0.08), frames=16, **TIME)["ball"]
    unknown = bounce(gs.unknown(0.18, low=0.1, high=0.3), 0.02, gs.unknown(0.04, low=-0.2, high=0.2))
    assert list(unknown.unknowns) == ["hill.radius", "hill.motion.displacement[1][1]"]
    states = gs.States({"ball.position": true.position}, noise=1e-4)
    fit = gs.estimate(unknown, states, corrections=0, **TIME)
    assert abs(float(fit.values["hill.radius"]) - 0.2) < 1e-6
    assert abs(float(fit.values["hill.motion.displacement[1][1]"]) - 0.08) < 1e-6


def test_a_moving_shape_is_rendered_where_it_is():
    scene = bounce(torch.tensor(0.2, dtype=F64), 0.02, 0.3)
    images = gs.render(scene, gs.simulate(scene, frames=3, **TIME), size=(48, 48), alpha=True)[..., 3]
    rows = torch.linspace(1.0, 0.0, 48, dtype=F64)[:, None]
    heights = [(image * rows).sum() / image.sum() for image in images]
    assert heights[0] < heights[1] < heights[2]
    still = bounce(torch.tensor(0.2, dtype=F64), 0.32, 0.0)  # where the sphere is at the end
    expected = gs.render(still, gs.simulate(scene, frames=3, **TIME), size=(48, 48), alpha=True)[-1, ..., 3]
    assert (images[-1] - expected).abs().max() < 1e-9


def test_gradients_of_pixels_reach_the_place_of_a_shape():
    def loss(values):
        radius, height, lift = values.unbind()
        scene = bounce(radius, height, lift)
        images = gs.render(scene, gs.simulate(scene, frames=4, **TIME), size=(32, 32), alpha=True)
        weights = torch.sin(torch.arange(images.numel(), dtype=F64)).view(images.shape)
        return (images * weights).sum()

    values = torch.tensor([0.2, 0.02, 0.1], dtype=F64, requires_grad=True)
    loss(values).backward()
    for k in range(3):
        step = torch.zeros(3, dtype=F64)
        step[k] = 1e-6
        with torch.no_grad():
            difference = (loss(values + step) - loss(values - step)) / 2e-6
        assert abs(values.grad[k] - difference) < 1e-4 * abs(difference), k


def test_control_finds_the_motion_of_a_clamp():
    mesh = gs.meshes.tet_box((0.3, 0.1, 0.1), (3, 1, 1))

    def held(end):
        motion = gs.Motion(gs.Signal([(0.0, 0.0, 0.0), end]))
        clamp = {"pinned": gs.Region(high=(-0.14, None, None)), "motion": motion}
        return gs.Scene([gs.Soft("beam", mesh, 300.0, material=gs.NeoHookean(3e4, 3e4, 30.0), **clamp)])

    target = gs.simulate(held((0.1, 0.05, 0.0)), frames=8, **TIME)["beam"].position[-1]
    free = [gs.unknown(0.0, low=-0.3, high=0.3) for _ in range(2)]
    plan = gs.control(held((*free, 0.0)), gs.GoalState({"beam.position": target}), frames=8, **TIME)
    found = plan.scene["beam"].motion.displacement.values
    assert np.allclose(np.asarray(found)[1], (0.1, 0.05, 0.0), atol=1e-4)
