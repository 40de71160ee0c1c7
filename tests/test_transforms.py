"""torch.func.vmap, grad, vjp and jacrev over `simulate` and `render` equal loops and ordinary gradients."""

import pytest
import torch

import gradsim as gs
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.scene.transforms import _Inside
from gradsim.simulate.stability import stable_dt

WORLDS = 3
TOLERANCE = 1e-12
NAMES = (
    "soft body hits the ground",
    "cloth in the air",
    "spring net hits the ground",
    "rigid body, pushed",
    "rigid body of variable size",
    "two boxes",
    "box with sticking friction",
    "double pendulum",
    "arm at its limits",
    "beam in a moving clamp",
    "bodies on moving shapes",
    "a ball flies into a sheet",
)
CHOSEN = [next(problem for problem in PROBLEMS if problem.name == name) for name in NAMES]


def perturbed(values, k):
    """Values of world k: other numbers, no longer equal between worlds."""
    return {name: value * (1.0 + 1e-3 * k) for name, value in values.items()}


def weighted(tensor):
    """A sum in which every number counts differently, over the last dimensions of a state."""
    weights = torch.linspace(-1.0, 2.0, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)
    return (tensor * weights).sum()


def loss_of(problem):
    def loss(values):
        trajectory = gs.simulate(problem.build(values), frames=3, fps=problem.fps, substeps=problem.substeps)
        return sum(weighted(state) for state in trajectory.states.values())

    return loss


def stacked(worlds):
    return {name: torch.stack([world[name] for world in worlds]) for name in worlds[0]}


def assert_close(found, expected):
    scale = max(float(expected.abs().max()), 1.0)
    assert float((found - expected).abs().max()) <= TOLERANCE * scale


@pytest.mark.filterwarnings("ignore::gradsim.StabilityWarning")
@pytest.mark.parametrize("problem", CHOSEN, ids=lambda problem: problem.name)
def test_vmap_of_gradients_equals_a_loop(problem):
    loss = loss_of(problem)
    worlds = [perturbed(problem.values(), k) for k in range(WORLDS)]
    found, value = torch.func.vmap(torch.func.grad_and_value(loss))(stacked(worlds))
    for k, world in enumerate(worlds):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in world.items()}
        expected = loss(leaves)
        assert_close(value[k], expected.detach())
        gradients = torch.autograd.grad(expected, list(leaves.values()), allow_unused=True, materialize_grads=True)
        for name, gradient in zip(leaves, gradients, strict=True):
            assert_close(found[name][k], gradient)


def ball_scene(mass, color=(0.8, 0.2, 0.1), eye=(0.0, 0.5, 3.0), **given):
    push = gs.Push(impulse=(1.0, 0.0, 0.0))
    ball = gs.Rigid(
        "ball", gs.meshes.icosphere(0.3, subdivisions=1), mass=mass, pushes=[push], look=gs.Look(color=color), **given
    )
    return gs.Scene([ball], camera=gs.Camera(eye=eye, target=(0.0, 0.0, 0.0)))


def video_of(mass, color, eye, renderer=gs.Exact()):
    scene = ball_scene(mass, color, eye)
    return gs.render(scene, gs.simulate(scene, frames=3, substeps=4), (12, 16), renderer, alpha=True)


def view_values():
    real = torch.float64
    mass = torch.tensor([0.5, 1.0, 2.0], dtype=real)
    color = torch.tensor([[0.8, 0.2, 0.1], [0.1, 0.7, 0.2], [0.3, 0.3, 0.9]], dtype=real)
    eye = torch.tensor([[0.1, 0.5, 3.0], [0.0, 0.4, 2.5], [-0.2, 0.6, 3.2]], dtype=real)
    return mass, color, eye


@pytest.mark.parametrize(
    "renderer", [gs.Exact(), gs.SoftRas(), gs.DIBR()], ids=lambda renderer: type(renderer).__name__
)
def test_vmap_of_videos_and_their_gradients_equals_a_loop(renderer):
    given = view_values()

    def loss(*values):
        return (video_of(*values, renderer) ** 2).mean()

    found, value = torch.func.vmap(torch.func.grad_and_value(loss, argnums=(0, 1, 2)))(*given)
    for k in range(WORLDS):
        leaves = [tensor[k].clone().requires_grad_() for tensor in given]
        expected = loss(*leaves)
        assert_close(value[k], expected.detach())
        for one, gradient in zip(found, torch.autograd.grad(expected, leaves), strict=True):
            assert_close(one[k], gradient)


def test_vmap_maps_only_over_the_chosen_dimensions():
    mass, color, eye = view_values()
    found = torch.func.vmap(video_of, in_dims=(0, None, None))(mass, color[0], eye[0])
    assert_close(found, torch.stack([video_of(one, color[0], eye[0]) for one in mass]))
    last = torch.func.vmap(video_of, in_dims=(None, 1, None))(mass[0], color.T, eye[0])
    assert_close(last, torch.stack([video_of(mass[0], one, eye[0]) for one in color]))


def test_nested_vmap_and_own_batches():
    mass, color, eye = view_values()
    inner = torch.func.vmap(video_of, in_dims=(None, 0, None))
    found = torch.func.vmap(inner, in_dims=(0, None, None))(mass, color[:2], eye[0])
    assert_close(found, torch.stack([torch.stack([video_of(m, c, eye[0]) for c in color[:2]]) for m in mass]))
    batched = torch.func.vmap(video_of, in_dims=(None, 0, None))(mass, color[:2], eye[0])  # masses: worlds of a batch
    assert batched.shape == (2, 3, 3, 12, 16, 4)
    assert_close(batched, torch.stack([torch.stack([video_of(m, c, eye[0]) for m in mass]) for c in color[:2]]))


def reached(mass):
    return gs.simulate(ball_scene(mass), frames=3, substeps=4)["ball"].position[..., -1, :]


def test_jacobian_by_rows_equals_one_row_at_a_time():
    mass = torch.tensor(0.7, dtype=torch.float64)
    rows = []
    for axis in range(3):
        leaf = mass.clone().requires_grad_()
        rows.append(torch.autograd.grad(reached(leaf)[axis], leaf)[0])
    assert_close(torch.func.jacrev(reached)(mass), torch.stack(rows))
    value, pull = torch.func.vjp(reached, mass)
    assert_close(value, reached(mass))
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert_close(pull(weights)[0], (weights * torch.stack(rows)).sum())


def test_ordinary_gradients_pass_through_vmap():
    mass = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(torch.func.vmap(reached)(mass).square().sum(), mass)
    (expected,) = torch.autograd.grad(reached(mass).square().sum(), mass)
    assert_close(found, expected)
    closed_over = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    heights = torch.func.vmap(lambda m: reached(m * closed_over))(mass.detach())
    (found,) = torch.autograd.grad(heights.square().sum(), closed_over)
    (expected,) = torch.autograd.grad(reached(mass.detach() * closed_over).square().sum(), closed_over)
    assert_close(found, expected)


def test_states_to_continue_from_are_mapped_over():
    mass = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)

    def continued(mass):
        scene = ball_scene(mass)
        middle = gs.simulate(scene, frames=2, substeps=4).final
        return gs.simulate(scene, frames=2, substeps=4, start=middle)["ball"].vertices

    assert_close(torch.func.vmap(continued)(mass), torch.stack([continued(one) for one in mass]))


def test_smoke_is_mapped_over():
    swirl = torch.linspace(0.0, 1.0, 2 * 8 * 8 * 2, dtype=torch.float64).reshape(2, 8, 8, 2)

    def density(velocity):
        smoke = gs.Smoke("smoke", size=(8, 8), density=0.5, velocity=velocity, buoyancy=0.1)
        return gs.simulate(gs.Scene([smoke]), frames=3, substeps=2)["smoke"].densities

    assert_close(torch.func.vmap(density)(swirl), torch.stack([density(one) for one in swirl]))


def test_backgrounds_are_mapped_over():
    colors = view_values()[1]
    scene = ball_scene(1.0)
    trajectory = gs.simulate(scene, frames=2, substeps=4)

    def video(color):
        return gs.render(scene.with_values({"scene.background": color}), trajectory, (8, 8), alpha=True, depth=True)

    found = torch.func.vmap(video)(colors)
    for k, one in enumerate(colors):
        assert_close(found[0][k], video(one)[0])
        assert torch.equal(found[1][k], video(one)[1])


def test_calls_without_mapped_tensors_work_inside_transforms():
    def shifted(x):
        return reached(0.7).sum() * x

    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert_close(torch.func.vmap(shifted)(x), shifted(x))
    assert_close(torch.func.grad(shifted)(x[0]), reached(0.7).sum())
    assert_close(reached(0.7), reached(torch.tensor(0.7, dtype=torch.float64)))  # nothing of a transform was stored


def test_what_is_not_supported_says_so():
    mass = torch.tensor([1.0, 2.0], dtype=torch.float64)
    with pytest.raises(gs.errors.UnsupportedTransform, match="forward mode"):
        _Inside.jvp(None)  # as torch.func.jvp does, which takes Torch 15 s to prepare
    with pytest.raises(gs.errors.BrokenGradient, match="gradients of gradients"):
        torch.func.grad(torch.func.grad(lambda m: reached(m).sum()))(mass[0])
    with pytest.raises(gs.errors.UnsupportedTransform, match="outside"):
        torch.func.vmap(lambda m: stable_dt(ball_scene(m)))(mass)
    textures = torch.rand(2, 4, 4, 3, dtype=torch.float64)
    scene = ball_scene(1.0)
    trajectory = gs.simulate(scene, frames=1, substeps=4)

    def textured(texture):
        look = gs.Look(texture=texture)
        ball = gs.Rigid("ball", scene["ball"].mesh, mass=1.0, look=look)
        return gs.render(gs.Scene([ball], camera=scene.camera), trajectory, (8, 8))

    with pytest.raises(gs.errors.UnsupportedTransform, match=r"ball\.look\.texture.*loop"):
        torch.func.vmap(textured)(textures)
    gradient = torch.func.grad(lambda texture: textured(texture).sum())(textures[0])
    assert gradient.shape == (4, 4, 3)


def test_invalid_values_are_found_inside_transforms():
    with pytest.raises(gs.errors.OutOfRange, match=r"ball\.mass.*reaching -1"):
        torch.func.vmap(reached)(torch.tensor([1.0, -1.0], dtype=torch.float64))
