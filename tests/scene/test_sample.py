"""Motions at times between the frames."""

import math

import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, UnknownName, WrongShape
from gradsim.scene.rotation import multiply, rotate, rotation_by

FPS = 30
BODIES = ["brick", "block", "swing"]


def brick(**more):
    """A box with three different moments of inertia, tumbling."""
    start = {"position": (0.0, 1.0, 0.0), "velocity": (1.0, 2.0, -0.5), "angular_velocity": (3.0, 8.0, -5.0)}
    return gs.Rigid("brick", gs.meshes.box((0.3, 0.2, 0.1)), density=500.0, **(start | more))


def all_kinds(**more):
    mesh = gs.meshes.tet_box((0.2, 0.2, 0.2), (1, 1, 1))
    stretching = gs.per_element(4 * mesh.vertices)
    block = gs.Soft("block", mesh, 500.0, material=gs.NeoHookean(500.0, 1000.0), velocity=stretching)
    swing = gs.DoublePendulum("swing", angles=(1.0, -0.5), rates=(2.0, 3.0), lengths=(0.8, 0.6))
    return gs.Scene([brick(**more), block, swing])


def simulate(scene, fps=FPS, substeps=32, duration=0.5):
    return gs.simulate(scene, frames=round(duration * fps) + 1, fps=fps, substeps=substeps, integrator=gs.RungeKutta4())


def angle_between(p, q):
    """Angle of the rotation from one unit quaternion to another [rad]."""
    sine = torch.minimum((p - q).norm(dim=-1), (p + q).norm(dim=-1)) / 2
    return 4 * torch.asin(sine)


def test_times_of_the_frames_return_the_trajectory():
    motion = simulate(all_kinds())
    assert motion.sample(motion.time.clone()) is motion
    differentiable = motion.time.clone().requires_grad_()
    again = motion.sample(differentiable)
    assert torch.allclose(again.vertices, motion.vertices, atol=1e-14)
    assert torch.allclose(again.velocities, motion.velocities, atol=1e-13)
    assert angle_between(again["brick"].rotation, motion["brick"].rotation).max() < 1e-14


def test_uniform_acceleration_is_exact():
    """Also one frame before the first frame and after the last."""
    motion = simulate(gs.Scene([brick(angular_velocity=(0.0, 4.0, 0.0))]))
    end = float(motion.time[-1])
    times = torch.tensor([-1 / FPS, -0.01, 0.0, 0.1234, 0.2, end, end + 0.02, end + 1 / FPS], dtype=torch.float64)
    found, t = motion.sample(times)["brick"], times[:, None]
    gravity, start = torch.tensor([0.0, -9.81, 0.0]).double(), torch.tensor([1.0, 2.0, -0.5]).double()
    height = torch.tensor([0.0, 1.0, 0.0]).double()
    assert torch.allclose(found.position, height + t * start + t**2 / 2 * gravity, atol=1e-12)
    assert torch.allclose(found.velocity, start + t * gravity, atol=1e-12)
    spin = torch.tensor([0.0, 4.0, 0.0]).double().expand(len(times), 3)
    assert angle_between(found.rotation, rotation_by(spin * t)).max() < 1e-6  # of the time integration
    assert torch.allclose(found.angular_velocity, spin, atol=1e-6)


@pytest.mark.parametrize("turns", [0.7, 1.0, 2.3])
def test_more_than_half_a_turn_per_frame(turns):
    spin = 2 * math.pi * turns * FPS
    motion = simulate(gs.Scene([brick(angular_velocity=(0.0, 0.0, spin))], gravity=(0, 0, 0)), substeps=512)
    times = motion.time[:-1] + 0.3 / FPS
    expected = rotation_by(torch.tensor([0.0, 0.0, spin]).double() * times[:, None])
    assert angle_between(motion.sample(times)["brick"].rotation, expected).max() < 1e-5


@pytest.mark.parametrize("body", BODIES)
def test_order_of_convergence(body):
    """Positions have an error of fourth order in the interval between frames, velocities one of third order."""
    errors = []
    for fps in (15, 30, 60):
        coarse, fine = simulate(all_kinds(), fps, 960 // fps), simulate(all_kinds(), 240, 4)
        between = slice(1, None, 2)
        found, expected = coarse.sample(fine.time[between]), fine[between]
        errors.append(
            [
                (getattr(found[body], name) - getattr(expected[body], name)).norm(dim=-1).max()
                for name in ("vertices", "velocities")
            ]
        )
    for k, order in enumerate((4, 3)):
        observed = math.log2(errors[1][k] / errors[2][k])
        assert observed > order - 0.35
        assert errors[0][k] > errors[1][k] > errors[2][k]
    assert errors[1][0] < 2e-4


def test_shapes_stay_rigid():
    motion = simulate(all_kinds())
    sampled = motion.sample(motion.time + 0.013)
    for body in ("brick", "swing"):
        rest = motion[body].vertices[0]
        distances = torch.cdist(sampled[body].vertices, sampled[body].vertices)
        link = slice(0, len(rest) if body == "brick" else len(rest) // 2)
        assert torch.allclose(distances[:, link, link], torch.cdist(rest, rest)[link, link], atol=1e-7)
    assert torch.allclose(sampled["brick"].rotation.norm(dim=-1), torch.ones(len(sampled)).double(), atol=1e-14)


@pytest.mark.parametrize("body", BODIES)
def test_velocity_is_the_derivative_of_position(body):
    """Also across frames, so that the motion is continuously differentiable."""
    motion, step = simulate(all_kinds()), 1e-6
    times = torch.cat([motion.time, motion.time[:-1] + 0.4 / FPS, motion.time[[0, -1]] + torch.tensor([-0.02, 0.02])])
    ahead, here, behind = (motion.sample(times + shift)[body] for shift in (step, 1e-300, -step))
    slope = (ahead.vertices - behind.vertices) / (2 * step)
    assert torch.allclose(slope, here.velocities, atol=3e-4)
    if body == "brick":
        relative = multiply(ahead.rotation, behind.rotation * torch.tensor([-1.0, -1.0, -1.0, 1.0]).double())
        spin = 2 * relative[:, :3] * relative[:, 3:].sign() / (2 * step)
        assert torch.allclose(spin, here.angular_velocity, atol=1e-3)


def loss_of(motion):
    weights = torch.linspace(-1, 2, motion.vertices.shape[-2] * 3, dtype=torch.float64).view(-1, 3)
    terms = (motion.vertices + 0.1 * motion.velocities) * weights
    spin = motion["brick"].angular_velocity[..., 0]
    return terms.sin().sum((-3, -2, -1)) + spin.sum(-1) + motion["brick"].rotation.pow(3).sum((-2, -1))


def test_gradient_in_the_times():
    motion = simulate(all_kinds(), duration=0.3)
    generator = torch.Generator().manual_seed(0)
    times = torch.rand(7, generator=generator, dtype=torch.float64) * 0.36 - 0.03
    leaf = times.clone().requires_grad_()
    loss_of(motion.sample(leaf)).backward()
    for step in (1e-5, 1e-6):
        shifts = step * torch.eye(7, dtype=torch.float64)
        ahead, behind = (loss_of(motion.sample(times + sign * shifts)) for sign in (1, -1))
        assert torch.allclose(leaf.grad, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-5)


def test_gradient_in_the_states():
    """Through the simulation, in the initial angular velocity, with times that differ between worlds."""
    spin = torch.tensor([[3.0, 8.0, -5.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    times = torch.tensor([[0.01, 0.15, 0.11], [-0.01, 0.2, 0.1]], dtype=torch.float64)

    def loss(value):
        motion = simulate(all_kinds(angular_velocity=value), duration=0.2).sample(times)
        return (loss_of(motion) + motion["brick"].angular_velocity.pow(3).sum((-2, -1))).sum()

    leaf = spin.clone().requires_grad_()
    loss(leaf).backward()
    differences = torch.zeros(2, 3, dtype=torch.float64)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        shift = torch.zeros(2, 3, dtype=torch.float64)
        shift[tuple(place)] = 1e-5
        differences[tuple(place)] = (loss(spin + shift) - loss(spin - shift)) / 2e-5
    assert torch.allclose(leaf.grad, differences, rtol=1e-6, atol=1e-6)


def test_times_may_differ_between_worlds():
    velocity = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], dtype=torch.float64)
    both = simulate(all_kinds(velocity=velocity), duration=0.2)
    times = torch.tensor([[0.01, 0.15, 0.1], [0.19, 0.02, 0.05]], dtype=torch.float64)
    sampled = both.sample(times)
    assert len(sampled) == 3
    for k in range(2):
        alone = simulate(all_kinds(velocity=velocity[k]), duration=0.2)
        one = alone.sample(times[k])
        assert torch.allclose(sampled.vertices[k], one.vertices, atol=1e-14)
        assert torch.allclose(sampled["brick"].position[k], one["brick"].position, atol=1e-14)
        assert torch.allclose(sampled["swing"].angle[k], one["swing"].angle, atol=1e-14)
        assert torch.allclose(alone.sample(times).vertices[k], one.vertices, atol=1e-14)
    shared = both.sample(times[0])
    assert torch.allclose(shared.vertices[0], sampled.vertices[0], atol=1e-14)


def test_sampled_motions_are_rendered():
    scene = gs.Scene([brick()], camera=gs.Camera(eye=(0, 1, 4), target=(0, 1, 0), fov=45))
    motion = simulate(scene, duration=0.2)
    times = torch.stack([motion.time[:3], motion.time[:3] + 0.5 / FPS])
    images = gs.render(scene, motion.sample(times), (16, 16))
    assert images.shape == (2, 3, 16, 16, 3)
    assert torch.allclose(images[0], gs.render(scene, motion, (16, 16), frames=[0, 1, 2]), atol=1e-12)
    one = gs.render(scene, motion.sample(times), (16, 16), frames=[2])
    assert torch.allclose(one, images[:, 2:], atol=1e-14)
    assert not torch.allclose(images[0], images[1], atol=1e-3)


def test_errors_name_the_time():
    motion = simulate(gs.Scene([brick()]), duration=0.2)
    with pytest.raises(OutOfRange, match=r"times = 0\.25.*0\.233"):
        motion.sample([0.1, 0.25])
    with pytest.raises(OutOfRange, match=r"times = -0\.04"):
        motion.sample([0.1, -0.04])
    with pytest.raises(NotFinite, match="times"):
        motion.sample([0.1, math.nan])
    with pytest.raises(WrongShape, match="times"):
        motion.sample(torch.tensor(0.1))
    with pytest.raises(InvalidInput, match="two frames"):
        motion[0].sample([0.001])
    with pytest.raises(InvalidInput, match="order"):
        motion.sample([0.1, 0.0]).sample([0.05])
    smoke = gs.Scene([gs.Smoke("smoke", (8, 8))])
    with pytest.raises(UnknownName, match="smoke"):
        gs.simulate(smoke, frames=3, substeps=2).sample([0.01])


def test_rotations_are_composed():
    a, b = (rotation_by(torch.tensor(v, dtype=torch.float64)) for v in ((0.3, -1.0, 2.0), (-2.0, 0.1, 0.4)))
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert torch.allclose(rotate(multiply(a, b), x), rotate(a, rotate(b, x)), atol=1e-14)
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    rotation_by(zero)[0].backward()
    assert torch.allclose(zero.grad, torch.tensor([0.5, 0.0, 0.0]).double())
