"""The native rollout of rigid bodies against the portable kernels, with worlds or contact points in the lanes."""

import math

import pytest
import torch

import gradsim as gs
from gradsim import bridge
from gradsim.check.gradcheck import adjoint_gradients
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.check.gradients import objective
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.forces.sticking import STICKING_ROWS

CPU, F64 = torch.device("cpu"), torch.float64
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-4}
STEPS = 60
PAIRS = (
    "two balls",
    "two boxes",
    "capsule and box",
    "torus and cone",
    "box that sticks to a box",
    "ball and cone that stick to a box",
)
RIGID = {p.name: p for p in PROBLEMS if p.system == "rigid body"}
INTEGRATORS = [SymplecticEuler(), Midpoint()]


def two_bodies(values):
    """Returns two bodies of different size, one of them pushed, between two planes and a sphere."""
    v = values["velocity"]
    push = gs.Push(force=values["force"], point=(0.1, 0.0, 0.05), start=0.01, end=0.05)
    bodies = [
        gs.Rigid("box", gs.meshes.box((0.3, 0.2, 0.1)), mass=values["mass"], position=(0.0, 0.1, 0.0), velocity=v),
        gs.Rigid("ball", gs.meshes.icosphere(0.15, 2), 300.0, position=(0.5, 0.16, 0.0), velocity=-v, pushes=[push]),
    ]
    shapes = {
        "wall": gs.Ground(values["ke"], normal=(-1.0, 0.2, 0.0), offset=-0.6),
        "hill": gs.StaticSphere(2e3, radius=0.2, position=(-0.1, -0.15, 0.05)),
    }
    return gs.Scene(bodies, gs.Ground(values["ke"], kd=5.0, kf=30.0, mu=0.4), shapes=shapes, pairs=False)


def two_bodies_values():
    values = {"mass": 1.5, "ke": 3e3, "velocity": [0.8, -1.0, 0.3], "force": [5.0, 3.0, -8.0]}
    return {name: torch.tensor(value, dtype=F64) for name, value in values.items()}


def paper_law_values():
    return RIGID["rigid body hits the ground"].values() | {"delta": torch.tensor(0.0, dtype=F64)}


SCENES = {name: (p.values, p.build, 1.0 / (p.fps * p.substeps)) for name, p in RIGID.items()}
SCENES["two bodies"] = (two_bodies_values, two_bodies, 1e-3)
SCENES["paper's law"] = (paper_law_values, RIGID["rigid body hits the ground"].build, 1e-3)


def rolled(scene, worlds, integrator, dtype, native):
    """Returns states and history after some steps, and all gradients after the backward pass."""
    values, build, dt = SCENES[scene]
    own = {n: torch.stack([v * (1 + 0.02 * k / worlds) for k in range(worlds)]).to(dtype) for n, v in values().items()}
    compiled = compile_scene(build(own))
    bridge.initialize()
    shard = BatchShard(compiled.topology, worlds, integrator, dtype, CPU, native)
    shard.load({family: compiled.parameters[family] for family in shard.parameters}, compiled.signals, dt)
    shard.reserve(STEPS, math.inf)
    for name, state in compiled.states.items():
        shard.vectors(name).copy_(state)
    shard.run(0, STEPS, 0, STEPS)
    found = {name: shard.vectors(name).clone() for name in shard.state_names}
    rows = STEPS * integrator.evaluations
    states = shard.state_layout["rigid"].state_names
    found |= {f"{name} recorded": shard.recorded(name)[:rows].clone() for name in states}
    generator = torch.Generator().manual_seed(3)
    for name in shard.state_names:
        seed = torch.randn(found[name].shape, generator=generator, dtype=F64)
        shard.vectors(f"{name}_adj").copy_(tangent(seed, found[name]) if name == "rigid.q" else seed)
    shard.clear_gradients()
    shard.run_back(0, STEPS, 0, STEPS)
    for name in shard.state_names:
        adjoint = shard.vectors(f"{name}_adj").clone()
        found[f"{name} adjoint"] = tangent(adjoint, compiled.states[name]) if name == "rigid.q" else adjoint
    for family, table in shard.gradients()[0].items():
        rows = compiled.topology.families[family].rows  # the numbers of `gs.Sticking` have no gradients
        found |= {f"{family} {row}": table[:, k].clone() for k, row in enumerate(rows) if row not in STICKING_ROWS}
    return found


def tolerance(scene, dtype):
    """Returns the tolerance; the overlap of two bodies, 1e-3 of their distance, rounds a thousand times more."""
    return 5e-3 if dtype == torch.float32 and scene in PAIRS else TOLERANCE[dtype]


def tangent(vector, q):
    """Returns the component orthogonal to q; the other one does not change the rotation."""
    return vector - (vector * q).sum(-1, keepdim=True) * q


@pytest.mark.parametrize(
    ("integrator", "dtype"),
    [*((integrator, torch.float64) for integrator in INTEGRATORS), (INTEGRATORS[0], torch.float32)],
    ids=lambda value: str(value) if isinstance(value, torch.dtype) else type(value).__name__,
)
@pytest.mark.parametrize(
    "worlds", [1, 19]
)  # points in the lanes; worlds in two or three blocks, the last one partly filled
@pytest.mark.parametrize("scene", SCENES)
def test_native_rollout_equals_portable_steps(scene, worlds, integrator, dtype):
    if scene in PAIRS and dtype == torch.float32 and isinstance(integrator, Midpoint):
        pytest.skip("one integrator is enough in single precision")
    native, portable = (rolled(scene, worlds, integrator, dtype, choice) for choice in (True, False))
    assert native.keys() == portable.keys()
    alive = 0
    for name, expected in portable.items():
        scale = expected.abs().amax()
        alive += bool(scale > 0)
        assert (native[name] - expected).abs().amax() <= tolerance(scene, dtype) * scale, name
    assert alive > 20


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("name", RIGID)
def test_gradients_of_a_batch_equal_those_of_single_worlds(name, integrator):
    """Batches have worlds in the lanes, single worlds have points, which other tests compare with differences."""
    problem = RIGID[name]
    worlds = [{n: v * (1 + 0.01 * k) for n, v in problem.values().items()} for k in range(3)]
    batch = {n: torch.stack([world[n] for world in worlds]) for n in worlds[0]}
    loss = objective(problem, integrator)
    together = adjoint_gradients(lambda values: loss(values).sum(), batch)
    for k, world in enumerate(worlds):
        for n, alone in adjoint_gradients(loss, world).items():
            assert torch.allclose(together[n][k], alone, rtol=1e-10, atol=1e-11 * alone.abs().max().item()), n


@pytest.mark.parametrize(
    ("worlds", "substeps"), [(2, 100), (19, 100), (19, 3000)]
)  # the last one takes several launches
def test_results_are_bitwise_equal_for_all_numbers_of_threads(worlds, substeps):
    mass = torch.linspace(0.5, 4.0, worlds, dtype=F64, requires_grad=True)
    body = gs.Rigid(
        "ball", gs.meshes.icosphere(0.2, 2), mass=mass, position=(0.0, 0.21, 0.0), velocity=(1.0, -1.0, 0.0)
    )
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            motion = gs.simulate(gs.Scene([body], gs.Ground(ke=2e3)), frames=6, substeps=substeps)["ball"]
            (gradient,) = torch.autograd.grad(motion.vertices.square().sum(), mass)
        finally:
            torch.set_num_threads(before)
        found.append((motion.vertices.detach(), gradient))
    for vertices, gradient in found[1:]:
        assert torch.equal(vertices, found[0][0])
        assert torch.equal(gradient, found[0][1])


def test_motion_without_gradients_is_bitwise_equal():
    """Without gradients no history is written."""
    mass = torch.linspace(0.5, 4.0, 3, dtype=F64)
    ends = []
    for wanted in (False, True):
        body = gs.Rigid("box", gs.meshes.box(0.2), mass=mass.clone().requires_grad_(wanted), position=(0.0, 0.2, 0.0))
        ends.append(gs.simulate(gs.Scene([body], gs.Ground(ke=2e3)), frames=11, substeps=300).vertices.detach())
    assert torch.equal(*ends)
