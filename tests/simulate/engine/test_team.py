"""Large worlds of nodes, which several threads advance together."""

import numpy as np
import pytest
import torch
from tests.simulate.differences import assert_native_equals_portable

import gradsim as gs
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.engine.engine import engine_for
from gradsim.simulate.engine.partition import partition

F64 = torch.float64


def block(stiffness, dtype=F64, **options):
    """A block of 5,120 tetrahedra that falls to the ground and slides on it."""
    mesh = gs.meshes.tet_box((0.8, 0.4, 0.4), (16, 8, 8))
    material = gs.NeoHookean(torch.as_tensor(stiffness, dtype=dtype), 2e4, 1.0)
    place = {"position": (0.0, 0.2, 0.0), "velocity": (1.0, -1.0, 0.3)}
    body = gs.Soft("block", mesh, 500.0, material=material, **place, **options)
    return gs.Scene([body], ground=gs.Ground(ke=2e3, kd=1.0, mu=0.4))


def sheet(stiffness, dtype=F64):
    """A sheet of 5,000 triangles with bending in the air."""
    material = gs.Membrane(torch.as_tensor(stiffness, dtype=dtype), 1e3, 0.1)
    options = {"bending": gs.Bending(1e-3, 1e-5), "drag": 0.5, "lift": 0.2, "velocity": (0.0, 1.0, 0.5)}
    return gs.Scene([gs.Cloth("sheet", gs.meshes.grid((1.0, 1.0), (50, 50)), 0.5, material=material, **options)])


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def results(build, integrator, dtype=F64, **options):
    stiffness = torch.tensor(1.5e4, dtype=dtype, requires_grad=True)
    options = {"frames": 3, "fps": 500.0, "substeps": 6, "integrator": integrator, **options}
    motion = gs.simulate(build(stiffness, dtype), **options)
    weights = torch.sin(torch.arange(motion.vertices[-1].numel(), dtype=dtype)).view(-1, 3)
    ((motion.vertices[-1] * weights).sum() + motion.vertices[1].square().sum()).backward()
    return [*(state.detach() for state in motion.states.values()), stiffness.grad]


@pytest.mark.parametrize(
    "integrator", [gs.SymplecticEuler(), gs.Midpoint(), gs.Verlet()], ids=lambda i: type(i).__name__
)
def test_a_team_of_threads_does_not_change_results(threads, integrator):
    found = []
    for count in (1, 2, 3):
        threads(count)
        found.append(results(block, integrator))
    engine = engine_for(compile_scene(block(torch.tensor(1.5e4, dtype=F64))), integrator)
    assert engine.team == 2  # of three threads: the world has two subdomains
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_team_advances_cloth_as_one_thread_does(threads, dtype):
    found = []
    for count in (1, 2):
        threads(count)
        found.append(results(sheet, gs.SymplecticEuler(), dtype, fps=4000.0))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_team_recomputes_what_does_not_fit(threads):
    whole = results(block, gs.Midpoint(), substeps=9)
    found = []
    for count in (1, 2):
        threads(count)
        found.append(results(block, gs.Midpoint(), substeps=9, memory=7e6))  # a step takes 1 MB
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(whole, found[0], strict=True))


def test_a_divided_world_agrees_with_portable_kernels():
    assert_native_equals_portable(block(1.5e4), gs.Midpoint(), worlds=1)


def test_a_batch_has_the_results_of_its_worlds(threads):
    threads(2)
    alone = gs.simulate(block(torch.tensor(1.5e4, dtype=F64)), frames=2, fps=500.0, substeps=6)
    both = gs.simulate(block(torch.tensor([1.5e4, 2e4], dtype=F64)), frames=2, fps=500.0, substeps=6)
    assert torch.equal(alone.vertices, both.vertices[0])


@pytest.mark.filterwarnings("ignore::gradsim.scene.errors.StabilityWarning")
def test_a_motion_that_is_not_finite_ends_a_team(threads):
    threads(2)
    with pytest.raises(gs.errors.Diverged):
        gs.simulate(block(torch.tensor(1e12, dtype=F64)), frames=4, fps=10.0, substeps=30)
    results(block, gs.Midpoint())  # the engine is whole


def test_an_interrupt_ends_a_team(threads, monkeypatch):
    threads(2)
    before = results(block, gs.Midpoint())
    run = BatchShard.run

    def interrupted(self, step, *others):
        if step > 0:
            raise KeyboardInterrupt
        run(self, step, *others)

    with monkeypatch.context() as patch:
        patch.setattr(BatchShard, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            results(block, gs.Midpoint())
    assert all(torch.equal(a, b) for a, b in zip(before, results(block, gs.Midpoint()), strict=True))


def test_blocks_act_on_the_nodes_of_their_subdomain():
    topology = compile_scene(block(1e4)).topology
    own = partition(topology, 8)
    nodes = topology.arrays["tet.nodes"] // 8
    blocks, bounds = own.orders["tet"], own.force_bounds["tet"]
    assert sorted(blocks) == list(range(len(blocks)))
    for number in range(own.subdomain_count):
        for block_number in blocks[bounds[number] : bounds[number + 1]]:
            inside = nodes[8 * block_number : 8 * block_number + 8]
            assert inside.min() >= own.node_bounds[number]
            assert inside.max() < own.node_bounds[number + 1]
    assert bounds[-1] - bounds[-2] < 0.2 * len(blocks)
    shared = own.force_bounds["node_contact"]
    assert shared[-2] == 0  # all add to the gradients of the ground


def test_a_mesh_with_scattered_nodes_is_not_divided():
    mesh = gs.meshes.tet_box((0.8, 0.4, 0.4), (16, 8, 8))
    order = np.random.default_rng(0).permutation(len(mesh.vertices))
    places = np.argsort(order)
    scattered = gs.meshes.TetMesh(mesh.vertices[order], places[mesh.tets])
    scene = gs.Scene([gs.Soft("block", scattered, 500.0, material=gs.NeoHookean(1e4, 1e4))])
    assert partition(compile_scene(scene).topology, 8).subdomain_count == 1
