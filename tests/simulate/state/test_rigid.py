"""Rigid bodies, pushes, static shapes and pendula: motions, batches, memory, and errors."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradcheck import adjoint_gradients
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.check.gradients import objective
from gradsim.scene.errors import OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.simulate import simulate as simulate_module
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard

F64 = torch.float64
BOX = gs.meshes.box((0.3, 0.2, 0.1))
OTHERS = [p for p in PROBLEMS if p.system in ("rigid body", "simple pendulum", "double pendulum")]


def tumbling(mass=2.0, **options):
    given = {"position": (0.0, 0.4, 0.0), "velocity": (0.5, -1.0, 0.2), "angular_velocity": (2.0, -3.0, 4.0), **options}
    return gs.Rigid("box", BOX, mass=mass, **given)


def test_motion_is_consistent():
    """Velocities of vertices are the derivatives of their positions; distances in the body are constant."""
    body = tumbling(center=(0.02, 0.01, -0.03), rotation=(0.2, 0.1, 0.3, 0.8))
    motion = gs.simulate(gs.Scene([body]), frames=2001, fps=10000.0, substeps=1, integrator=gs.Midpoint())["box"]
    rates = (motion.vertices[2:] - motion.vertices[:-2]) * 5000.0
    assert torch.allclose(rates, motion.velocities[1:-1], atol=1e-4)
    assert torch.allclose(motion.rotation.norm(dim=-1), torch.ones(2001, dtype=F64), atol=1e-14)
    assert torch.allclose(motion.position[0], torch.tensor([0.0, 0.4, 0.0], dtype=F64), atol=1e-14)
    assert torch.allclose(motion.angular_velocity[0], torch.tensor([2.0, -3.0, 4.0], dtype=F64), atol=1e-13)
    turned = motion.center_of_mass - motion.position
    assert torch.allclose(turned.norm(dim=-1), turned[0].norm().expand(2001), atol=1e-13)
    edges = motion.vertices - motion.center_of_mass[:, None]
    assert torch.allclose(edges.norm(dim=-1), edges[0].norm(dim=-1).expand(2001, 8), atol=1e-13)


def test_density_and_mass_agree():
    volume = 0.3 * 0.2 * 0.1
    by_mass = tumbling(mass=3.0).mass_properties(F64, torch.device("cpu"))
    by_density = gs.Rigid("box", BOX, 3.0 / volume).mass_properties(F64, torch.device("cpu"))
    assert torch.allclose(by_mass.mass, by_density.mass, rtol=1e-14)
    assert torch.allclose(by_mass.inertia, by_density.inertia, rtol=1e-13)
    expected = 3.0 / 12 * torch.tensor([0.2**2 + 0.1**2, 0.3**2 + 0.1**2, 0.3**2 + 0.2**2], dtype=F64)
    assert torch.allclose(torch.diagonal(by_mass.inertia), expected, rtol=1e-12)


def test_batch_equals_single_calls():
    masses = torch.linspace(0.5, 4.0, 7, dtype=F64)
    friction = torch.linspace(0.1, 0.9, 7, dtype=F64)
    together = gs.simulate(gs.Scene([tumbling(masses)], gs.Ground(ke=2e3, mu=friction)), frames=16, substeps=64)
    for k in range(7):
        alone = gs.simulate(gs.Scene([tumbling(masses[k])], gs.Ground(ke=2e3, mu=friction[k])), frames=16, substeps=64)
        assert torch.allclose(together["box"].vertices[k], alone["box"].vertices, atol=1e-12, rtol=0)
        assert torch.allclose(together["box"].angular_velocity[k], alone["box"].angular_velocity, atol=1e-10, rtol=0)


def _step_bytes(scene, integrator):
    """Returns the history of one step [bytes]."""
    topology = compile_scene(scene).topology
    return BatchShard(topology, 1, integrator, F64, torch.device("cpu")).step_bytes


@pytest.mark.parametrize("problem", OTHERS, ids=lambda p: p.name)
@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
def test_recomputed_gradients_equal_stored_ones(problem, integrator, monkeypatch):
    values = problem.values()
    stored = adjoint_gradients(objective(problem, integrator), values)
    full = problem.substeps * _step_bytes(problem.build(values), integrator)
    monkeypatch.setattr(simulate_module, "default_limit", lambda: full // 2)
    again = adjoint_gradients(objective(problem, integrator), values)
    for name, gradient in stored.items():
        assert torch.allclose(again[name], gradient, rtol=1e-11, atol=1e-12 * gradient.abs().max().item()), name


def test_rotation_gradients_lie_in_the_tangent_space():
    q = torch.tensor([0.1, 0.2, -0.1, 0.9], dtype=F64)
    q = (q / q.norm()).requires_grad_()
    end = gs.simulate(gs.Scene([tumbling(rotation=q)], gs.Ground(ke=2e3)), frames=16, substeps=64)["box"].vertices[-1]
    (gradient,) = torch.autograd.grad((end * torch.arange(24.0, dtype=F64).view(8, 3)).sum(), q)
    assert abs(float(gradient @ q.detach())) < 1e-10 * float(gradient.norm())
    assert float(gradient.norm()) > 0


def test_bodies_of_all_kinds_in_one_scene():
    bodies = [
        tumbling(pushes=[gs.Push(force=(1.0, 0.0, 0.0), end=0.1)]),
        gs.Soft("soft", gs.meshes.tet_box(0.2, 1), 300.0, material=gs.NeoHookean(1e4, 1e4, 1.0), position=(1, 0.3, 0)),
        gs.Pendulum("swing", angle=1.0),
        gs.Rigid("ball", gs.meshes.icosphere(0.1, 1), 500.0, position=(-1.0, 0.3, 0.0), velocity=(0, -1, 0)),
        gs.DoublePendulum("chaos", angles=(2.0, 1.0)),
    ]
    ground = gs.Ground(ke=1e3, kd=1.0)
    together = gs.simulate(gs.Scene(bodies, ground), frames=10, substeps=128)
    assert together.vertices.shape[-2] == sum(together[b.name].vertices.shape[-2] for b in bodies)
    for body in bodies:
        alone = gs.simulate(gs.Scene([body], ground), frames=10, substeps=128)
        assert torch.allclose(together[body.name].vertices, alone[body.name].vertices, atol=1e-12), body.name
    halves = gs.simulate(gs.Scene(bodies, ground), frames=4, substeps=128, start=together.state(6))
    assert torch.allclose(halves.vertices[-1], together.vertices[-1], atol=1e-12)
    assert together[2:5]["chaos"].angle.shape == (3, 2)


def test_smoke_with_other_bodies_is_sliced_and_continued():
    smoke = gs.Smoke("smoke", (8, 8), density=np.eye(8), velocity=(0.1, 0.0), boundary=gs.Periodic(), buoyancy=1.0)
    scene = gs.Scene([smoke, gs.Pendulum("swing")])
    whole = gs.simulate(scene, frames=7, substeps=2)
    rest = gs.simulate(scene, frames=4, substeps=2, start=whole.state(3))
    assert torch.allclose(rest["smoke"].densities[-1], whole["smoke"].densities[-1], atol=1e-12)
    assert torch.allclose(rest["swing"].bobs[-1], whole["swing"].bobs[-1], atol=1e-12)
    assert whole[2:5]["smoke"].velocities.shape == (3, 8, 8, 2)
    assert torch.equal(whole[4]["smoke"].densities[0], whole["smoke"].densities[4])
    alone = gs.simulate(gs.Scene([smoke]), frames=2, substeps=2)
    with pytest.raises(UnknownName, match="smoke has no vertices"):
        alone.vertices  # noqa: B018


def test_contact_may_differ_by_shape():
    """A body falls on two equal floors, but has its own softer contact parameters for one of them."""
    own = {"left": gs.Contact(ke=500.0, kd=0.0, kf=0.0, mu=0.0)}
    floors = {
        "left": gs.StaticBox(2e3, 0.0, 0.0, 0.0, size=(2.0, 1.0, 2.0), position=(-1.5, -0.5, 0.0)),
        "right": gs.StaticBox(2e3, 0.0, 0.0, 0.0, size=(2.0, 1.0, 2.0), position=(1.5, -0.5, 0.0)),
    }
    lowest = []
    for x in (-1.5, 1.5):
        body = gs.Rigid("cube", gs.meshes.box(0.2), mass=1.0, position=(x, 0.3, 0.0), contact=own)
        motion = gs.simulate(gs.Scene([body], shapes=floors), frames=61, fps=100, substeps=100)["cube"]
        lowest.append(float(motion.vertices[..., 1].min()))
    speed2 = 2 * 9.81 * 0.2
    for depth, stiffness in zip(lowest, (4 * 500.0, 4 * 2e3), strict=True):
        deepest = 9.81 / stiffness + np.sqrt((9.81 / stiffness) ** 2 + speed2 / stiffness)
        assert -depth == pytest.approx(deepest, rel=0.03)


def test_face_samples_collide_where_no_vertex_does():
    """A cube falls on a sphere: its corners miss the sphere, the centres of its faces do not."""
    ball = {"ball": gs.StaticSphere(1e4, 10.0, radius=0.2, position=(0.0, 0.0, 0.0))}
    ends = []
    for samples in (False, True):
        cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=1.0, position=(0.0, 0.5, 0.0), face_samples=samples)
        ends.append(gs.simulate(gs.Scene([cube], shapes=ball), frames=16, substeps=200)["cube"].position[-1, 1])
    assert ends[0] < -0.3
    assert ends[1] > 0.1


def test_divergence_error_has_the_rigid_body():
    light = gs.Rigid("feather", BOX, mass=1e-9, pushes=[gs.Push(force=(1e30, 0.0, 0.0), start=0.5)])
    heavy = gs.Rigid("anvil", BOX, mass=1e3, position=(5.0, 5.0, 0.0))
    with pytest.raises(gs.Diverged) as caught:
        gs.simulate(gs.Scene([heavy, light], pairs=False), frames=60, substeps=2, dtype=torch.float32)
    assert caught.value.body == "feather"
    assert caught.value.time == pytest.approx(0.5, abs=0.04)


def test_a_step_too_large_for_a_light_body_warns():
    feather = gs.Rigid("feather", BOX, mass=1e-3, position=(0.0, 0.11, 0.0))
    with pytest.warns(gs.StabilityWarning, match="contact stiffness or friction of 'feather'"):
        gs.simulate(gs.Scene([feather], gs.Ground()), frames=2)


def test_float32_agrees_with_float64():
    exact = gs.simulate(gs.Scene([tumbling()], gs.Ground(ke=2e3)), frames=16, substeps=64)
    rough = gs.simulate(gs.Scene([tumbling()], gs.Ground(ke=2e3)), frames=16, substeps=64, dtype=torch.float32)
    assert (rough.vertices.double() - exact.vertices).abs().max() < 1e-3


@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("moment", [0.0, 0.0996, 0.1, 0.1004, 0.13])
@pytest.mark.parametrize("substeps", [(10, 100), (100, 10), (64, 64)])
def test_an_impulse_acts_once_in_continued_rollouts(moment, substeps, integrator):
    body = gs.Rigid("box", BOX, mass=2.0, pushes=[gs.Push(impulse=(1.0, 0.0, 0.0), start=moment)])
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    first = gs.simulate(scene, frames=2, fps=10, substeps=substeps[0], integrator=integrator)
    second = gs.simulate(scene, frames=2, fps=10, substeps=substeps[1], integrator=integrator, start=first.final)
    assert second["box"].velocity[-1, 0].item() == pytest.approx(0.5, rel=1e-12)


def test_a_body_too_heavy_for_its_contact_warns():
    anvil = gs.Rigid("anvil", gs.meshes.box(0.5), mass=1e3, position=(0.0, 0.3, 0.0))
    with pytest.warns(gs.ContactWarning, match=r"'anvil'.*sinks about 0\.245 m.*times its ke"):
        gs.simulate(gs.Scene([anvil], gs.Ground()), frames=2)


def test_bobs_are_at_the_ends_of_their_rods():
    body = gs.DoublePendulum("p", lengths=(1.0, 0.5), angles=(np.pi / 2, 0.0), pivot=(0.0, 2.0, 0.0))
    motion = gs.simulate(gs.Scene([body]), frames=1)["p"]
    expected = torch.tensor([[1.0, 2.0, 0.0], [1.0, 1.5, 0.0]], dtype=F64)
    assert torch.allclose(motion.bobs[0], expected, atol=1e-15)
    assert torch.allclose(motion.vertices[0].amin(0)[1], torch.tensor(1.4, dtype=F64), atol=1e-3)


CASES = {
    "push at no time": (lambda: gs.Push(force=(1, 0, 0), start=float("nan")), OutOfRange, r"Push\.start = nan"),
    "push at a word": (lambda: gs.Push(force=(1, 0, 0), start="now"), WrongType, r"Push\.start = 'now'"),
    "a push without a list": (
        lambda: gs.Rigid("b", BOX, 1.0, pushes=gs.Push(force=(1, 0, 0))),
        WrongType,
        r"b\.pushes = Push: must be a list",
    ),
    "shapes in a list": (lambda: gs.Scene([tumbling()], shapes=[gs.StaticBox()]), WrongType, r"scene\.shapes = list"),
    "open mesh": (
        lambda: gs.Rigid("b", gs.TriMesh(BOX.vertices, BOX.faces[1:]), 1.0),
        gs.InvalidInput,
        r"b\.mesh.*open",
    ),
    "inside-out mesh": (
        lambda: gs.Rigid("b", gs.TriMesh(BOX.vertices, BOX.faces[:, ::-1]), 1.0),
        gs.InvalidInput,
        r"b\.mesh.*inside out.*meshes\.outward",
    ),
    "no mass at all": (lambda: gs.Rigid("b", BOX), gs.InvalidInput, r"b\.density/mass = neither"),
    "wrong masses": (
        lambda: gs.Rigid("b", BOX, mass=gs.per_element(np.ones(7))),
        WrongShape,
        r"b\.mass.*8 vertexs|8 vert",
    ),
    "skew inertia": (
        lambda: gs.Rigid("b", BOX, mass=1.0, inertia=[[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]),
        WrongShape,
        r"b\.inertia = not symmetric",
    ),
    "negative inertia": (lambda: gs.Rigid("b", BOX, mass=1.0, inertia=np.diag([1, -1, 1])), OutOfRange, r"b\.inertia"),
    "impossible inertia": (
        lambda: gs.Rigid("b", BOX, mass=1.0, inertia=np.diag([1, 1, 3])),
        OutOfRange,
        r"b\.inertia = moments.*others' sum",
    ),
    "push of two kinds": (lambda: gs.Push(force=(1, 0, 0), impulse=(1, 0, 0)), gs.InvalidInput, r"Push\.force/impulse"),
    "push of no kind": (lambda: gs.Push(), gs.InvalidInput, r"Push\.force/impulse = neither"),
    "push that ends first": (lambda: gs.Push(force=(1, 0, 0), start=1.0, end=0.5), OutOfRange, r"Push\.end = 0\.5"),
    "not a push": (lambda: gs.Rigid("b", BOX, 1.0, pushes=[(1, 0, 0)]), WrongType, r"b\.pushes = tuple"),
    "flat box": (lambda: gs.StaticBox(size=(1, 0, 1)), OutOfRange, r"StaticBox\.size"),
    "unknown shape": (
        lambda: gs.Scene([gs.Rigid("b", BOX, 1.0, contact={"wall": gs.Contact()})], gs.Ground()),
        UnknownName,
        r"b\.contact = 'wall': the scene's shapes are ground",
    ),
    "not a shape": (
        lambda: gs.Scene([tumbling()], shapes={"wall": BOX}),
        WrongType,
        r"scene\.shapes\['wall'\] = TriMesh",
    ),
    "pendulum without length": (lambda: gs.Pendulum("p", length=0.0), OutOfRange, r"p\.length = 0: must be > 0"),
    "three links": (lambda: gs.DoublePendulum("p", lengths=(1, 1, 1)), WrongShape, r"p\.lengths = shape \(3,\)"),
    "start of another scene": (
        lambda: gs.simulate(
            gs.Scene([tumbling()]), frames=2, start=gs.simulate(gs.Scene([gs.Pendulum("p")]), frames=1).final
        ),
        WrongShape,
        r"start\.rigid\.p = nothing",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_raises_errors_with_its_name(case):
    make, error, words = CASES[case]
    with pytest.raises(error, match=words):
        make()
