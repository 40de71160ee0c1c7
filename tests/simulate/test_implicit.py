"""Implicit midpoint: order, energy, gradients, equality with fine explicit steps, refusals, and its sparse solver."""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.simulate.differences import assert_gradients
from tests.simulate.scenes import beam

import gradsim as gs
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.simulate.compile.elimination import coupling_graph, elimination_fronts
from gradsim.simulate.engine.engine import ENGINES

F64 = torch.float64
CHECKED = (
    "soft body hits the ground",
    "soft bodies with sticking friction",
    "cloth in the air",
    "beam in a moving clamp",
)


def oscillator_end(ratio, substeps, integrator):
    """Where a damped oscillator of 2 rad/s, released at 1 m, is after a second [m]."""
    frequency = 2.0
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    options = {"stiffness": frequency**2, "rest_length": 0.0, "damping": 2.0 * ratio * frequency, "pinned": [0]}
    scene = gs.Scene([gs.Springs("spring", points, [[0, 1]], mass=1.0, **options)], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=2, fps=1.0, substeps=substeps, integrator=integrator)
    return float(motion.vertices[-1, 1, 0])


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_second_order_with_damping(ratio):
    damped = 2.0 * math.sqrt(1.0 - ratio**2)
    exact = math.exp(-2.0 * ratio) * (math.cos(damped) + 2.0 * ratio / damped * math.sin(damped))
    errors = [abs(oscillator_end(ratio, n, gs.ImplicitMidpoint()) - exact) for n in (32, 64, 128)]
    assert all(coarse / fine == pytest.approx(4.0, rel=0.02) for coarse, fine in itertools.pairwise(errors))


def test_oscillation_has_the_frequency_and_the_amplitude_of_the_rule():
    """One step turns the phase by 2 atan(w dt / 2) and damps nothing, also far above the limit of explicit rules."""
    for substeps in (1, 3, 40):
        phase = 2.0 * substeps * math.atan(1.0 / substeps)
        assert oscillator_end(0.0, substeps, gs.ImplicitMidpoint()) == pytest.approx(math.cos(phase), abs=1e-9)


def test_a_sagging_beam_converges_to_fine_explicit_steps():
    scene = beam(2e4, damping=20.0)
    options = {"frames": 7, "fps": 30.0}
    exact = gs.simulate(scene, substeps=128, integrator=gs.Verlet(), **options).vertices
    errors = [
        float(
            (gs.simulate(scene, substeps=n, integrator=gs.ImplicitMidpoint(), **options).vertices - exact).abs().max()
        )
        for n in (4, 8, 16)
    ]
    assert errors[0] < 0.01
    assert all(3.4 < coarse / fine < 4.6 for coarse, fine in itertools.pairwise(errors))


@pytest.mark.parametrize("lam", [2e4, 1e6])
def test_smoothed_tetrahedra_converge_to_fine_explicit_steps(lam):
    """Also near incompressibility, where the matrix of linear tetrahedra is far from theirs."""
    scene = beam(2e4, lam=lam, damping=20.0, element=gs.SmoothedTet())
    options = {"frames": 4, "fps": 30.0}
    exact = gs.simulate(scene, substeps=256, integrator=gs.Verlet(), **options).vertices
    errors = [
        float(
            (gs.simulate(scene, substeps=n, integrator=gs.ImplicitMidpoint(), **options).vertices - exact).abs().max()
        )
        for n in (4, 8)
    ]
    assert errors[0] < 0.01
    assert 3.4 < errors[0] / errors[1] < 4.6


def test_adjoint_of_smoothed_tetrahedra_agrees_with_differences():
    def build(p):
        place = {"position": (0.0, 0.102, 0.0), "element": gs.SmoothedTet()}
        body = beam(p["mu"], cells=(3, 2, 2), lam=p["lam"], damping=p["damping"], **place)["beam"]
        return gs.Scene([body], ground=gs.Ground())

    values = {"mu": 2e4, "lam": 3e5, "damping": 20.0}
    tensors = {name: torch.tensor(value, dtype=F64) for name, value in values.items()}
    options = {"frames": 4, "substeps": 6, "integrator": gs.ImplicitMidpoint(tolerance=1e-15)}
    assert_gradients(build, tensors, **options)


def test_energy_of_a_stiff_beam_stays_at_steps_that_no_explicit_rule_survives():
    scene = beam(2e7, lam=2e7, damping=0.0, velocity=(0.0, 0.5, 0.0))
    assert 20 * gs.stable_dt(scene, gs.Verlet()) < 1.0 / 240.0
    speeds = gs.simulate(scene, frames=31, substeps=8, integrator=gs.ImplicitMidpoint()).velocities.norm(dim=-1)
    assert 0.01 < float(speeds[1:].mean()) < 0.5
    assert float(speeds.max()) < 3.0


@pytest.mark.parametrize("name", CHECKED)
def test_adjoint_agrees_with_differences(name):
    own = next(problem for problem in PROBLEMS if problem.name == name)
    options = {"frames": own.frames, "fps": own.fps, "substeps": own.substeps}
    assert_gradients(own.build, own.values(), integrator=gs.ImplicitMidpoint(tolerance=1e-15), **options)


def test_gradients_of_a_batch_are_those_of_its_worlds():
    young = torch.tensor([2e4, 6e4, 2e5], dtype=F64)

    def run(values):
        leaf = values.clone().requires_grad_()
        scene = beam(leaf, cells=(3, 1, 1), damping=10.0)
        motion = gs.simulate(scene, frames=3, substeps=4, integrator=gs.ImplicitMidpoint())
        motion.vertices[..., -1, :, 1].sum().backward()
        return motion.vertices.detach(), leaf.grad

    vertices, gradients = run(young)
    for k, value in enumerate(young):
        own, gradient = run(value)
        assert torch.equal(own, vertices[k])
        assert torch.equal(gradient, gradients[k])


def test_gradients_do_not_depend_on_the_memory():
    def run(memory):
        ENGINES.clear()
        mu = torch.tensor(2e4, dtype=F64, requires_grad=True)
        scene = beam(mu, cells=(3, 1, 1), damping=10.0)
        motion = gs.simulate(scene, frames=4, fps=5.0, substeps=40, integrator=gs.ImplicitMidpoint(), memory=memory)
        motion.vertices[-1].square().sum().backward()
        return float(mu.grad)

    assert run(2e4) == pytest.approx(run(1e9), rel=1e-7)
    ENGINES.clear()


def test_a_state_at_a_frame_determines_the_rest():
    scene, options = beam(2e4, damping=20.0), {"fps": 30.0, "substeps": 4, "integrator": gs.ImplicitMidpoint()}
    whole = gs.simulate(scene, frames=5, **options)
    first = gs.simulate(scene, frames=3, **options)
    rest = gs.simulate(scene, frames=3, start=first.final, **options)
    assert torch.equal(rest.vertices, whole.vertices[2:])


def test_float32_agrees_with_float64():
    scene, options = beam(2e4), {"frames": 5, "substeps": 8, "integrator": gs.ImplicitMidpoint()}
    single, double = (gs.simulate(scene, dtype=dtype, **options).vertices for dtype in (torch.float32, F64))
    assert float((single - double).abs().max()) < 2e-4


def test_a_step_that_does_not_converge_is_reported():
    scene = beam(2e4, velocity=(0.0, 30.0, 0.0))
    with pytest.raises(gs.Diverged, match="implicit step did not converge") as found:
        gs.simulate(scene, frames=3, substeps=1, integrator=gs.ImplicitMidpoint(max_iterations=1))
    assert found.value.body == "beam"
    assert found.value.step <= 1


def refused(*bodies, **options):
    scene = gs.Scene(list(bodies), **options)
    with pytest.raises(gs.InvalidInput, match=r"integrator = gs\.ImplicitMidpoint\(\)") as found:
        gs.simulate(scene, frames=2, integrator=gs.ImplicitMidpoint())
    return str(found.value)


def test_what_is_not_supported_is_refused_by_name():
    mesh = gs.meshes.tet_box(0.2, 1)
    soft = gs.Soft("jelly", mesh, 500.0)
    assert "'box' (only soft bodies, cloth and springs" in refused(gs.Rigid("box", gs.meshes.box(0.1), mass=1.0), soft)
    touching = gs.Soft("other", mesh, 500.0, self_contact=True)
    assert "'other' (the force 'node_pair')" in refused(touching)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": "small"}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_options_are_checked(options, name):
    with pytest.raises(gs.InvalidInput, match=f"integrator.{name}"):
        gs.ImplicitMidpoint(**options)


@pytest.mark.parametrize("points", ["mesh", "none"])
def test_fronts_eliminate_every_free_node_once_with_all_its_later_neighbours(points):
    mesh = gs.meshes.tet_box((0.4, 0.2, 0.2), (6, 3, 3))
    count = len(mesh.vertices)
    free = mesh.vertices[:, 0] > mesh.vertices[:, 0].min()
    graph = coupling_graph(count, [mesh.tets], free)
    fronts = elimination_fronts(graph, mesh.vertices if points == "mesh" else np.zeros((count, 3)), free)
    eliminated = np.concatenate([front.own for front in fronts])
    assert sorted(eliminated) == list(np.flatnonzero(free))
    order = np.full(count, -1)
    order[eliminated] = np.arange(len(eliminated))
    for number, front in enumerate(fronts):
        later = graph.around(front.own)[0]
        assert np.isin(later[order[later] > order[front.own].max()], front.boundary).all()
        assert all(np.isin(fronts[child].boundary, front.nodes).all() and child < number for child in front.children)
    assert sum(len(front.own) * len(front.nodes) for front in fronts) < 0.35 * len(eliminated) ** 2


def test_costs_of_integrators():
    stiff = beam(2e7, lam=2e7, damping=0.0)
    first, *rest = gs.compare_integrators(stiff, frequency=2.0)
    assert isinstance(first.integrator, gs.ImplicitMidpoint)
    assert first.limit == "accuracy at 2 Hz"
    assert [type(cost.integrator) for cost in rest] == [gs.Verlet, gs.Midpoint]
    assert rest[0].steps == pytest.approx(1.0 / gs.stable_dt(stiff, gs.Verlet()))
    assert rest[0].limit == "stability: material stiffness of 'beam'"
    soft = gs.compare_integrators(beam(2e3, lam=2e3, damping=0.0), frequency=2.0)
    assert isinstance(soft[0].integrator, gs.Verlet)
    ball = gs.Scene([gs.Ball("ball", radius=0.1, mass=1.0)])
    assert all(not cost.integrator.implicit for cost in gs.compare_integrators(ball, frequency=2.0))
    with pytest.raises(gs.InvalidInput, match="frequency"):
        gs.compare_integrators(stiff, frequency=0.0)
