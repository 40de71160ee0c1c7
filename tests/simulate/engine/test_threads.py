"""Batches on several threads, and calls from several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.simulate.scenes import beam

import gradsim as gs
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine import engine

F64 = torch.float64


def test_threads_do_not_change_results():
    moduli = torch.linspace(1e4, 3e4, 5, dtype=F64, requires_grad=True)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            moduli.grad = None
            motion = gs.simulate(beam(moduli), frames=3, substeps=40)
            motion.vertices[..., -1, :, 1].sum().backward()
            results.append((motion.vertices.detach(), moduli.grad))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("memory", [None, 6e5])
def test_threads_do_not_change_gradients_of_rigid_bodies_beside_springs(memory):
    """Shards of a few worlds leave lanes of rigid bodies empty, which must not change the lengths of launches."""
    before = torch.get_num_threads()
    points = np.array([(0.0, 1.0, 0.0), (0.3, 1.0, 0.0), (0.6, 1.1, 0.0)])
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            mass = torch.linspace(1.0, 2.0, 5, dtype=F64, requires_grad=True)
            net = gs.Springs("net", points, [[0, 1], [1, 2]], stiffness=150.0, damping=0.1, mass=0.1)
            cube = gs.Rigid("cube", gs.meshes.box(0.3), mass, position=(2, 0.5, 0), angular_velocity=(1, 2, 3))
            scene = gs.Scene([net, cube], ground=gs.Ground())
            motion = gs.simulate(scene, frames=7, fps=40, substeps=256, memory=memory)
            motion.vertices[..., -1, :, :].square().sum().backward()
            results.append(mass.grad)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("problem", [PROBLEMS[1], PROBLEMS[4]], ids=lambda p: p.name)
def test_threads_do_not_change_results_with_partly_filled_blocks(problem, dtype):
    """Ten tetrahedra or eighteen triangles leave a block of eight or sixteen lanes partly filled."""
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            values = {n: torch.stack([v, 1.01 * v, 0.99 * v]).to(dtype) for n, v in problem.values().items()}
            leaves = {name: value.requires_grad_() for name, value in values.items()}
            states = gs.simulate(problem.build(leaves), frames=3, fps=problem.fps, substeps=10).states
            sum(state.square().sum() for state in states.values()).backward()
            results.append([*(s.detach() for s in states.values()), *(leaf.grad for leaf in leaves.values())])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(
    ("worlds", "threads", "group", "bounds"),
    [
        (16, 2, 1, [0, 8, 16]),
        (5, 3, 1, [0, 1, 3, 5]),
        (2, 4, 1, [0, 1, 2]),
        (16, 2, 16, [0, 16]),  # one block of lanes, which cannot be divided
        (16, 2, 8, [0, 8, 16]),
        (19, 3, 8, [0, 8, 16, 19]),
        (100, 2, 16, [0, 48, 100]),
    ],
)
def test_shards_have_whole_groups_of_worlds(worlds, threads, group, bounds):
    assert engine.shard_bounds(worlds, threads, group) == bounds


def test_shards_of_rigid_bodies_are_blocks_of_lanes():
    def shard_sizes(bodies, dtype):
        compiled = compile_scene(gs.Scene(bodies, ground=gs.Ground()), dtype=dtype)
        built = engine.Engine(compiled.topology, 16, gs.SymplecticEuler(), dtype, compiled.device, threads=2)
        return [shard.world_count for shard in built.shards]

    cube, mass = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0), gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)))
    assert shard_sizes([cube], torch.float32) == [16]
    assert shard_sizes([cube], F64) == [8, 8]
    assert shard_sizes([cube, mass], torch.float32) == [8, 8]


def test_number_of_torch_threads_is_restored():
    moduli = torch.linspace(1e4, 3e4, 4, dtype=F64, requires_grad=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        gs.simulate(beam(moduli), frames=2, substeps=40).vertices.sum().backward()
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:  # new threads have the same number
            assert pool.submit(torch.get_num_threads).result() == 3
        with pytest.raises(gs.Diverged), pytest.warns(gs.StabilityWarning):
            gs.simulate(beam(1e6 * moduli), frames=3, fps=10.0, substeps=10)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_workers_do_not_track_gradients():
    moduli = torch.linspace(1e4, 3e4, 16, dtype=F64, requires_grad=True)
    cubes = gs.Scene([gs.Rigid("cube", gs.meshes.box(0.5), mass=moduli)])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for scene in (beam(moduli), cubes):  # a team of threads on one shard, and two shards
            for _ in range(3):
                gs.simulate(scene, frames=2, substeps=40).vertices.sum().backward()
            with torch.no_grad():
                gs.simulate(scene, frames=2, substeps=40)
    finally:
        torch.set_num_threads(before)
    shards = [shard for e in engine.ENGINES.values() for shard in e.shards]
    assert any(len(e.shards) > 1 for e in engine.ENGINES.values())
    assert any(e.team > 1 for e in engine.ENGINES.values())
    tensors = [b.tensor for s in shards for b in s.buffers.values()] + [
        t.tensor for s in shards for t in s.parameters.values()
    ]
    assert all(tensor.grad_fn is None for tensor in tensors)


def test_calls_from_several_threads():
    """Simulations of different topologies in several Python threads give the results of single calls."""
    sizes = [(2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 1)]

    def height(cells):
        mu = torch.tensor(1e4, dtype=F64, requires_grad=True)
        end = gs.simulate(beam(mu, cells=cells), frames=3, substeps=40).vertices[-1, :, 1].sum()
        end.backward()
        return end.item(), mu.grad.item()

    alone = [height(cells) for cells in sizes]
    for _ in range(10):
        engine.ENGINES.clear()  # some threads build engines while others capture or run
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(height, sizes * 3)) == alone * 3
