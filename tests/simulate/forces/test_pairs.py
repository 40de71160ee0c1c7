"""Contact between rigid bodies: parameters of pairs, files, shapes and their samples, stability, and neighbours."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradient_problems.pairs import BOX_PAIR
from gradsim.check.pair_gradients import check_pair_gradients
from gradsim.check.physics.pairs import ball_collision, restitution_of_pair
from gradsim.scene.closed_surfaces import is_box
from gradsim.simulate.forces.colliders import box_samples, collider_shape, mesh_samples
from gradsim.simulate.forces.distance_grid import distance_grid, signed_distances
from gradsim.simulate.forces.pair_laws import pair_laws

F64 = torch.float64
NO_GRAVITY = (0.0, 0.0, 0.0)


def balls(*, left=None, right=None, **scene):
    """Returns two balls of which the left one moves towards the right one."""
    first = gs.Ball("left", radius=0.1, mass=1.0, position=(-0.25, 0.0, 0.0), velocity=(1.0, 0.0, 0.0), contact=left)
    second = gs.Ball("right", radius=0.1, mass=2.0, contact=right)
    return gs.Scene([first, second], gravity=NO_GRAVITY, **scene)


def speeds(scene, **time):
    """Returns the final speeds along x."""
    run = gs.simulate(scene, **({"frames": 2, "fps": 2.0, "substeps": 4000} | time))
    return [float(run[body.name].velocity[-1, 0]) for body in scene.bodies]


def pair_contact(scene, first="left", second="right"):
    """Returns the contact parameters of a pair; None if it is switched off."""
    laws, names = pair_laws(scene), [body.name for body in scene.bodies]
    a, b = (laws.groups[names.index(name)] for name in (first, second))
    number = laws.numbers[a, b]
    return None if number < 0 else laws.laws[number].contact


# --- parameters ------------------------------------------------------------------------------------------------------


def test_bodies_touch_by_default_and_pass_when_switched_off():
    assert speeds(balls())[1] > 0.5
    assert speeds(balls(pairs=False)) == [1.0, 0.0]
    assert speeds(balls(pairs={"right-left": None})) == [1.0, 0.0]


def test_contact_of_either_body_or_of_the_pair():
    own, other = gs.Contact(ke=4e4, mu=0.2, kd=2.0), gs.Contact(ke=1e4, mu=0.6, restitution=0.5)
    assert pair_contact(balls(left=own)) is own
    assert pair_contact(balls(right=own)) is own
    assert pair_contact(balls(left={"right": own})) is own
    assert pair_contact(balls(left=other, pairs={"left-right": own})) is own
    assert float(pair_contact(balls()).ke) == float(gs.Contact().ke)
    both = pair_contact(balls(left=own, right=other))
    assert float(both.ke) == pytest.approx(1.6e4)
    assert float(both.mu) == pytest.approx(0.4)
    assert float(both.restitution) == 0.5
    assert both.kd is None


def test_bodies_of_equal_contact_share_a_law():
    contact = [gs.Contact(mu=0.3), gs.Contact(mu=0.3), None]
    bodies = [gs.Ball(f"b{k}", radius=0.1, mass=1.0, position=(k, 0, 0), contact=contact[k % 3]) for k in range(30)]
    assert len(pair_laws(gs.Scene(bodies)).laws) == 3
    named = gs.Scene(bodies, pairs={"b0-b1": gs.Contact(mu=0.9), "b2-b5": None})
    assert float(pair_contact(named, "b1", "b0").mu) == 0.9
    assert pair_contact(named, "b5", "b2") is None
    assert float(pair_contact(named, "b0", "b3").mu) == 0.3
    assert float(pair_contact(named, "b4", "b6").mu) == 0.3


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ({"left": None}, r"scene\.pairs = 'left': a pair is the names of two bodies"),
        ({"left-top": None}, r"scene\.pairs = 'top': the rigid bodies are left, right"),
        ({"left-right": None, "right-left": None}, r"scene\.pairs = 'right-left': is given twice"),
        ({"left-right": 3.0}, r"pairs\.left-right = float: must be a gs\.Contact"),
        ([("left", "right")], r"scene\.pairs = list: must be contact parameters by pair"),
    ],
)
def test_bad_pairs_are_refused(pairs, match):
    with pytest.raises(gs.InvalidInput, match=match):
        balls(pairs=pairs)


def test_parameters_of_a_pair_are_unknowns_by_path_and_in_files(tmp_path):
    contact = gs.Contact(ke=1e5, restitution=gs.unknown(0.5, low=0.1, high=1.0))
    scene = balls(pairs={"left-right": contact})
    assert list(scene.unknowns) == ["pairs.left-right.restitution"]
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert list(loaded.unknowns) == ["pairs.left-right.restitution"]
    filled = loaded.with_values({"pairs.left-right.restitution": 0.8})
    left, right = speeds(filled)
    assert right - left == pytest.approx(0.8, rel=5e-3)
    for pairs in (False, {"left-right": None}):
        balls(pairs=pairs).save(tmp_path / "off.yaml")
        assert gs.load_scene(tmp_path / "off.yaml").pairs == pairs


# --- shapes ----------------------------------------------------------------------------------------------------------


def test_boxes_are_recognized_by_their_volume():
    assert is_box(gs.meshes.box((0.1, 0.2, 0.3)))
    assert not is_box(gs.meshes.cylinder(0.1, 0.2))
    shifted = gs.meshes.box(0.1)
    assert is_box(gs.TriMesh(shifted.vertices + 3.0, shifted.faces))


def test_samples_of_a_box_weigh_one_for_each_face():
    points, weights = box_samples(np.array([0.2, 0.2, 0.4]))
    assert weights.sum() == pytest.approx(6.0)
    top = points[:, 1] == 1.0
    inner = top & (np.abs(points[:, [0, 2]]).max(1) < 1.0)
    assert weights[inner].max() < 0.15
    assert len(box_samples(np.ones(3))[0]) == 56


def test_samples_of_a_mesh_have_its_areas():
    mesh = gs.meshes.cylinder(0.1, 0.3, 24)
    points, weights = mesh_samples(mesh)
    assert weights.sum() == pytest.approx(6.0)
    assert len(np.unique(points.round(9), axis=0)) == len(points)
    middle = (weights[:, None] * points).sum(0) / weights.sum()
    assert np.abs(middle).max() < 0.01 * 0.3
    dense = gs.meshes.icosphere(0.1, 5)
    points, weights = mesh_samples(dense)
    assert len(points) <= 1024
    assert (weights[:, None] * points**2).sum(0) / 6.0 == pytest.approx(np.full(3, 0.01 / 3.0), rel=1e-2)


def test_distance_grid_of_a_sphere():
    mesh = gs.meshes.icosphere(0.1, 4)
    outside = np.array([[0.12, 0.0, 0.0], [0.05, 0.0, 0.0], [0.0, 0.08, -0.09]])
    expected = np.linalg.norm(outside, axis=1) - 0.1
    assert signed_distances(mesh, outside) == pytest.approx(expected, abs=3e-4)
    grid = distance_grid(mesh)
    assert distance_grid(gs.meshes.icosphere(0.1, 4)) is grid
    assert grid.coefficients.min() == pytest.approx(-0.1, abs=0.01)


def test_a_grid_has_the_force_of_the_exact_shape():
    """A box given as a mesh that is slightly bevelled has about the forces of the exact box."""
    mesh = gs.meshes.box(0.2)
    cut = gs.TriMesh(mesh.vertices * np.where(mesh.vertices[:, :1] > 0, 1.0, 1.0 - 1e-6), mesh.faces)
    found = []
    for own in (mesh, cut):
        bodies = [
            gs.Rigid("low", own, mass=1.0),
            gs.Ball("ball", radius=0.05, mass=1.0, position=(0.02, 0.1495, 0.01)),
        ]
        contact = gs.Contact(ke=1e4, mu=0.0, kd=0.0, delta=1e-5)
        scene = gs.Scene(bodies, gravity=NO_GRAVITY, pairs={"low-ball": contact})
        run = gs.simulate(scene, frames=2, fps=1e5, substeps=1, integrator=gs.SymplecticEuler())
        found.append(float(run["ball"].velocity[-1, 1]) * 1e5)
    assert collider_shape(gs.Rigid("cut", cut, mass=1.0)).grid is not None
    assert found[0] == pytest.approx(5.0, rel=0.02)
    assert found[1] == pytest.approx(found[0], rel=0.2)


# --- physics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [1e5, 1e7])
def test_collisions_converge_with_the_stiffness(stiffness):
    """A head-on collision is exact; in an oblique one the line of centres turns during contact."""
    run = ball_collision(0.1, stiffness)
    n = torch.tensor([-math.sqrt(0.75), 0.5, 0.0], dtype=F64)
    expected = torch.tensor([1.0, 0.0, 0.0], dtype=F64) - (4 / 3) * n[0] * n
    error = float((run["left"].velocity[-1] - expected).norm())
    assert error < 8.0 / math.sqrt(stiffness)


@pytest.mark.parametrize("pose", ["ball", "face", "edge", "corner"])
def test_restitution_between_bodies(pose):
    one = torch.ones(1, dtype=F64)
    assert float(restitution_of_pair(pose, 0.7, one, one)) == pytest.approx(0.7, rel=0.02)


@pytest.mark.parametrize("many", [3, 12])
def test_bodies_in_a_list_of_neighbours_move_as_alone(many):
    """Two balls collide alike if others, too far away to touch, put them into a list of neighbours."""
    alone = balls()
    far = [gs.Ball(f"far_{k}", radius=0.1, mass=1.0, position=(0.0, 5.0 + k, 0.0)) for k in range(many)]
    crowd = gs.Scene([*far, *alone.bodies], gravity=NO_GRAVITY)
    assert speeds(crowd)[-2:] == speeds(alone)


def test_bodies_touch_alike_beside_a_tether():
    """A tether couples a far node to a rigid body, so that all bodies advance in the common rollout of the world."""
    alone = BOX_PAIR.build(BOX_PAIR.values())
    node = gs.Springs("node", np.array([[5.0, 0.0, 0.0]]), np.zeros((0, 2)), mass=1.0)
    third = gs.Ball("third", radius=0.1, mass=1.0, position=(5.0, 0.5, 0.0))
    rope = gs.Tether("rope", body="node", nodes=[0], rigid="third", stiffness=10.0)
    found = []
    for scene in (alone, gs.Scene([*alone.bodies, third, node], forces=[rope])):
        leaves = [scene["left"].velocity.clone().requires_grad_(), scene["left"].contact.ke.clone().requires_grad_()]
        changed = scene.with_values({"left.velocity": leaves[0], "left.contact.ke": leaves[1]})
        end = gs.simulate(changed, frames=5, fps=200.0, substeps=25)["right"].vertices[-1]
        found.append((end, *torch.autograd.grad(end.square().sum(), leaves)))
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)
    assert found[0][1].abs().min() > 1e-6


def test_gradients_hold_at_large_steps():
    missed = [result for result in check_pair_gradients(("two boxes",)) if not result.ok]
    assert not missed


def test_stable_step_knows_pairs():
    scene = balls(pairs={"left-right": gs.Contact(ke=1e6, kd=0.0, kf=0.0)})
    limit = 2.0 / math.sqrt(1e6 * 1.5)
    assert gs.stable_dt(scene, gs.SymplecticEuler()) == pytest.approx(limit, rel=1e-6)
    assert gs.stable_dt(balls(pairs=False), gs.SymplecticEuler()) == math.inf
