"""Scene signatures: what scenes share must not depend on the numbers in their tensors."""

import pickle

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.cache import signature_key
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.compile.signature import NOT_SIMULATED, clear_signatures
from gradsim.simulate.stability import sinking, stable_step

F64 = torch.float64


def key_of(scene):
    return signature_key(scene, skip=NOT_SIMULATED)


def everything(compiled):
    """Returns everything that a rollout and its warnings depend on."""
    signals = {f"signal {k}": signal for k, signal in enumerate(compiled.signals)}
    steps = [stable_step(compiled, integrator) for integrator in (gs.SymplecticEuler(), gs.Midpoint())]
    return {**compiled.states, **compiled.parameters, **signals}, steps, sinking(compiled)


def check_shared(first, second):
    """Asserts that a scene compiles to the same tensors with and without another of its signature before it."""
    clear_signatures()
    before = compile_scene(first)
    everything(before)
    after = compile_scene(second)
    assert after.signature is before.signature
    tensors, steps, sunk = everything(after)
    clear_signatures()
    alone, steps_alone, sunk_alone = everything(compile_scene(second))
    assert list(tensors) == list(alone)
    for name, tensor in alone.items():
        assert torch.equal(tensors[name], tensor), name
        assert tensors[name].requires_grad == tensor.requires_grad, name
    assert (steps, sunk) == (steps_alone, sunk_alone)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_compilation_does_not_depend_on_earlier_scenes(problem):
    values = {name: value.detach() for name, value in problem.values().items()}
    for name in values:  # one tensor at a time, so that everything else is shared
        others = {other: value if other == name else value.numpy() for other, value in values.items()}
        wanted = (1.001 * values[name]).requires_grad_()
        check_shared(problem.build(others), problem.build({**others, name: wanted}))
    changed = {name: (1.001 * value).requires_grad_() for name, value in values.items()}
    check_shared(problem.build(values), problem.build(changed))


def cube(mass=2.0, **given):
    return gs.Rigid("cube", gs.meshes.box(0.5), mass=mass, **given)


def test_batched_tensors_of_one_signature():
    def scene(scale):
        masses, density = (
            scale * torch.tensor([[1.0], [2.0]], dtype=F64),
            scale * torch.tensor([3.0, 4.0, 5.0], dtype=F64),
        )
        sheet = gs.Cloth(
            "sheet", gs.meshes.grid((0.5, 0.5), (2, 2)), density, drag=0.1, velocity=density[:, None].expand(3, 3)
        )
        return gs.Scene([cube(masses), sheet], ground=gs.Ground(ke=1e3 * density))

    check_shared(scene(1.0), scene(1.1))


def test_masses_at_vertices_and_given_inertia_of_one_signature():
    def scene(scale):
        inertia = scale * torch.diag(torch.tensor([1.0, 1.1, 1.2], dtype=F64))
        given = cube(2.0, inertia=inertia, angular_velocity=(0.0, 1.0, 0.0), pushes=[gs.Push(impulse=(1.0, 0.0, 0.0))])
        points = gs.Rigid("shell", gs.meshes.box(0.5), mass=gs.per_element(scale * torch.ones(8, dtype=F64)))
        return gs.Scene([given, points], ground=gs.Ground())

    check_shared(scene(1.0), scene(1.1))


def test_size_of_springs_depends_on_their_points():
    def scene(scale):
        points = scale * torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], dtype=F64)
        return gs.Scene([gs.Springs("pair", points, [[0, 1]], rest_length=1.0)], ground=gs.Ground())

    check_shared(scene(1.0), scene(2.0))


def test_changes_of_arrays_in_place_are_noticed():
    velocity = np.array([1.0, 0.0, 0.0])
    scene = gs.Scene([cube(torch.tensor(2.0, dtype=F64), velocity=velocity)])
    before = gs.simulate(scene, frames=2)["cube"].velocity[-1, 0].item()
    velocity[0] = 3.0
    assert before == 1.0
    assert gs.simulate(scene, frames=2)["cube"].velocity[-1, 0].item() == 3.0


def test_continued_rollout_equals_one_rollout():
    def scene(mass):
        push = gs.Push(force=(2.0, 0.0, 0.0), start=0.5, end=1.0)
        return gs.Scene([cube(torch.tensor(mass, dtype=F64), pushes=[push])])

    whole = gs.simulate(scene(2.0), frames=31)
    first = gs.simulate(scene(2.0), frames=16)
    rest = gs.simulate(scene(2.0), frames=16, start=first.final)
    assert torch.allclose(rest["cube"].position[-1], whole["cube"].position[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pushes", [(), (gs.Push(force=(2.0, 0.0, 0.0), start=0.5),)], ids=["alone", "pushed"])
def test_continued_rollouts_share_a_signature_unless_pushes_depend_on_time(pushes):
    scene = gs.Scene([cube(torch.tensor(2.0, dtype=F64), pushes=pushes)])
    first = gs.simulate(scene, frames=3)
    second = gs.simulate(scene, frames=3, start=first.final)
    found = [compile_scene(scene, start=motion.final).signature for motion in (first, second)]
    assert (found[0] is found[1]) is not bool(pushes)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "block"},
        {"mesh": gs.meshes.box(0.6)},
        {"face_samples": True},
        {"velocity": (1.0, 0.0, 0.0)},
        {"velocity": torch.zeros(3, dtype=F64)},
        {"mass": torch.tensor([1.0], dtype=F64)},
        {"mass": torch.tensor(1.0, dtype=torch.float32)},
        {"pushes": [gs.Push(force=(1.0, 0.0, 0.0))]},
        {"contact": gs.Contact()},
        {"contact": {"ground": gs.Contact()}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_changes_that_change_the_signature(change):
    given = {"name": "cube", "mesh": gs.meshes.box(0.5), "mass": torch.tensor(1.0, dtype=F64)}
    keys = [key_of(gs.Scene([gs.Rigid(**body)], ground=gs.Ground())) for body in (given, given | change)]
    other = key_of(gs.Scene([gs.Rigid(**given | {"mass": torch.tensor(2.0, dtype=F64)})], ground=gs.Ground()))
    assert keys[0] == other != keys[1]


def test_looks_and_backgrounds_do_not_change_the_signature():
    colored = gs.Scene([cube(look=gs.Look(color=(1.0, 0.0, 0.0)))], background=(0.0, 0.0, 0.0))
    assert key_of(colored) == key_of(gs.Scene([cube()]))


def test_times_of_pushes_change_the_signature():
    scenes = [gs.Scene([cube(pushes=[gs.Push(force=(1.0, 0.0, 0.0), end=end)])]) for end in (0.1, 0.2)]
    assert key_of(scenes[0]) != key_of(scenes[1])


def test_arrays_that_are_not_contiguous_are_compared_by_value():
    columns = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])
    keys = [key_of(gs.Scene([cube(velocity=v)])) for v in (columns[:, 0], (1.0, 2.0, 3.0), columns[:, 1])]
    assert keys[0] == keys[1] != keys[2]


def test_mass_and_the_inertia_computed_from_it_give_the_same_motion():
    mass = torch.tensor(2.0, dtype=F64)
    solid = cube(mass, rotation=(0.1, 0.2, 0.3, 1.0), angular_velocity=(1.0, 2.0, 0.5), position=(0.0, 0.3, 0.0))
    found = solid.mass_properties(F64, torch.device("cpu"))
    given = cube(
        found.mass,
        inertia=found.inertia,
        center=found.center,
        rotation=(0.1, 0.2, 0.3, 1.0),
        angular_velocity=(1.0, 2.0, 0.5),
        position=(0.0, 0.3, 0.0),
    )
    moved = [gs.simulate(gs.Scene([body], ground=gs.Ground()), frames=10)["cube"].vertices for body in (solid, given)]
    assert torch.allclose(*moved, rtol=1e-10, atol=1e-12)


def test_motions_read_without_gradient_mode_keep_their_gradients():
    mass = torch.tensor(2.0, dtype=F64, requires_grad=True)
    trajectory = gs.simulate(gs.Scene([cube(mass)], ground=gs.Ground(), gravity=(0.0, -1.0, 0.0)), frames=3)
    with torch.no_grad():
        assert not gs.simulate(gs.Scene([cube(mass)]), frames=2)["cube"].center_of_mass.requires_grad
        assert trajectory["cube"].center_of_mass.requires_grad
    with torch.inference_mode():
        assert trajectory["cube"].rotation.requires_grad


def test_trajectories_can_be_pickled():
    trajectory = gs.simulate(gs.Scene([cube()]), frames=3)
    again = pickle.loads(pickle.dumps(trajectory))
    assert list(again.motions) == ["cube"]
    assert torch.equal(again["cube"].vertices, trajectory["cube"].vertices)


MIXED = {  # bodies with and without tensors, as functions of a value near 1
    "mass": lambda v: {"mass": 2.0 * v},
    "density": lambda v: {"density": 300.0 * v},
    "radius": lambda v: {"mass": 2.0, "radius": 0.1 * v},
    "position": lambda v: {"mass": 2.0, "position": torch.stack([v, v, v])},
    "center": lambda v: {"mass": 2.0, "center": torch.stack([0.01 * v, v - v, v - v])},
    "angular velocity": lambda v: {"mass": 2.0, "angular_velocity": torch.stack([v, v, v])},
    "contact": lambda v: {"mass": 2.0, "contact": gs.Contact(ke=1e4 * v)},
}


@pytest.mark.parametrize("options", MIXED.values(), ids=MIXED)
def test_bodies_with_and_without_tensors_share_a_signature(options):
    def scene(value):
        v = torch.tensor(value, dtype=F64, requires_grad=True)
        ball = gs.Ball("ball", **{"radius": 0.1, **options(v)})
        others = [gs.Ball("other", mass=1.0, radius=0.2, position=(1.0, 0.5, 0.0), angular_velocity=(1.0, 0.0, 0.0))]
        others += [gs.Rigid("box", gs.meshes.box(0.3), density=500.0, size=(0.2, 0.3, 0.4), position=(2.0, 0.5, 0.0))]
        return gs.Scene([others[0], ball, others[1]], gs.Ground())

    check_shared(scene(1.0), scene(1.3))


def test_repeated_rollouts_start_from_their_own_states():
    box = gs.meshes.box(0.5)

    def rollout(mass, **options):
        cube = gs.Rigid("cube", box, mass=torch.tensor(mass, dtype=F64, requires_grad=True), **options)
        states = gs.simulate(gs.Scene([cube], gs.Ground()), frames=3, fps=300.0, substeps=2).states
        return torch.cat([state.detach().flatten() for state in states.values()])

    still, moving = rollout(1.0), rollout(1.0, velocity=torch.tensor([1.0, 0.0, 0.0], dtype=F64))
    for _ in range(3):  # initial states that recur are copied as one block
        assert torch.equal(rollout(1.0), still)
    assert torch.equal(rollout(1.0, velocity=torch.tensor([1.0, 0.0, 0.0], dtype=F64)), moving)
    assert torch.equal(rollout(1.0), still)
    assert not torch.equal(still, moving)
