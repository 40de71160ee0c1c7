"""Articulated bodies: native and portable kernels, the engine's features, motions of links, errors."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim import bridge
from gradsim.check.gradient_problems.articulated import ARM, TREE
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard

CPU = torch.device("cpu")


def run_shard(problem, dtype, native, integrator, worlds):
    """Returns states, adjoints and gradients after a few steps forward and back."""
    values = {name: value.to(dtype) for name, value in problem.values().items()}
    if worlds > 1:
        factors = [1.0, 1.01, 0.98][:worlds]
        values = {name: torch.stack([value * factor for factor in factors]) for name, value in values.items()}
    compiled = compile_scene(problem.build(values))
    bridge.initialize()
    shard = BatchShard(compiled.topology, worlds, integrator, dtype, CPU, native)
    shard.load({family: compiled.parameters[family] for family in shard.parameters}, compiled.signals, 4e-3)
    shard.reserve(6, math.inf)
    for name, state in compiled.states.items():
        shard.vectors(name).copy_(state)
    shard.run(0, 6, 0, 6)
    after = [state.clone() for state in shard.states()]
    generator = torch.Generator().manual_seed(1)
    shard.clear_gradients()
    for adjoint in shard.states("_adj"):
        adjoint.copy_(torch.randn(adjoint.shape, generator=generator, dtype=torch.float64).to(dtype))
    for state, width in (("q", 1), ("v", 1)):  # joints with one coordinate have no other adjoint
        scalar = torch.as_tensor(compiled.topology.arrays["joint.kinds"] != 2)
        shard.vectors(f"joint.{state}_adj")[:, scalar, width:] = 0.0
    shard.run_back(0, 6, 0, 6)
    parameters, samples = shard.gradients()
    return [*after, *(a.clone() for a in shard.states("_adj")), *(p.clone() for p in parameters.values()), *samples]


@pytest.mark.parametrize("worlds", [1, 3])
@pytest.mark.parametrize("integrator", [SymplecticEuler(), Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("problem", [ARM, TREE], ids=lambda p: p.name)
def test_native_and_portable_rollouts_agree(problem, integrator, worlds):
    native, portable = (run_shard(problem, torch.float64, n, integrator, worlds) for n in (True, False))
    for one, other in zip(native, portable, strict=True):
        scale = max(1.0, float(other.abs().max()))
        assert float((one - other).abs().max()) < 1e-11 * scale


def test_single_precision_agrees():
    integrator = SymplecticEuler()
    single = run_shard(ARM, torch.float32, True, integrator, 3)
    double = run_shard(ARM, torch.float64, True, integrator, 3)
    portable = run_shard(ARM, torch.float32, False, integrator, 3)
    for values in (single, portable):
        for one, other in zip(values, double, strict=True):
            assert float((one - other).abs().max()) < 2e-4 * max(1.0, float(other.abs().max()))


def pendulum(**joint):
    return gs.Articulated("bar", {"rod": gs.Link(gs.Revolute(**joint), mass=1.0, center=(0.0, -0.5, 0.0))})


def run(scene, **options):
    return gs.simulate(scene, **{"frames": 5, "fps": 50.0, "substeps": 10, "integrator": SymplecticEuler(), **options})


def test_a_rollout_continues_where_another_ended():
    scene = TREE.build(TREE.values())
    whole = run(scene, frames=9)
    first = run(scene)
    second = run(scene, start=first.final)
    torch.testing.assert_close(second.vertices, whole[4:].vertices, rtol=0, atol=1e-12)


def test_recomputed_gradients_are_those_of_a_stored_history():
    gradients = []
    for memory in (None, 500.0):
        angle = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        trajectory = run(gs.Scene([pendulum(angle=angle)]), memory=memory)
        trajectory["bar"].angles.sum().backward()
        gradients.append(float(angle.grad))
    assert gradients[0] == gradients[1] != 0.0


def test_worlds_of_a_batch_are_independent():
    angles = torch.linspace(-1.0, 1.0, 11, dtype=torch.float64)
    batch = run(gs.Scene([pendulum(angle=angles, damping=0.1)]))["bar"].angles
    for k in (0, 7, 10):
        alone = run(gs.Scene([pendulum(angle=float(angles[k]), damping=0.1)]))["bar"].angles
        torch.testing.assert_close(batch[k], alone, rtol=0, atol=1e-13)


def test_a_step_that_is_too_large_is_named():
    stiff = gs.Scene([pendulum(angle=0.5, stiffness=1e6)])
    limit = gs.stable_dt(stiff, SymplecticEuler())
    assert limit == pytest.approx(2.0 / math.sqrt(1e6 / 0.25), rel=1e-6)
    with pytest.warns(gs.StabilityWarning, match="joints"), pytest.raises(gs.Diverged) as caught:
        run(stiff, frames=40)
    assert caught.value.body == "bar"


def test_the_mass_matrix_of_the_stability_estimate_is_that_of_the_dynamics():
    """Springs of one kind at all joints: the frequencies are those of small oscillations, against a rollout."""
    links = {
        "a": gs.Link(gs.Revolute(angle=1e-4, stiffness=30.0), mass=1.0, center=(0.0, -0.5, 0.0)),
        "b": gs.Link(gs.Revolute(stiffness=30.0), "a", (0.0, -1.0, 0.0), mass=2.0, center=(0.1, -0.3, 0.0)),
        "c": gs.Link(gs.Prismatic(stiffness=30.0), "b", (0.0, -0.2, 0.0), mass=0.5, center=(0.0, -0.3, 0.1)),
    }
    scene = gs.Scene([gs.Articulated("chain", links)], gravity=(0.0, 0.0, 0.0))
    dt = gs.stable_dt(scene, SymplecticEuler())
    below = run(scene, frames=2, fps=1 / (2000 * 0.98 * dt), substeps=2000)
    assert float(below["chain"].angles.abs().max()) < 1e-2
    with pytest.raises(gs.Diverged):
        run(scene, frames=2, fps=1 / (2000 * 1.02 * dt), substeps=2000)


def test_scene_files_keep_articulated_bodies(tmp_path):
    values = {name: value.numpy() for name, value in ARM.values().items()}
    scene = ARM.build({name: torch.as_tensor(value) for name, value in values.items()})
    scene = scene.with_values({"arm.links.upper.mass": gs.unknown(0.9, low=0.1, high=2.0)})
    scene.save(tmp_path / "arm.yaml")
    loaded = gs.load_scene(tmp_path / "arm.yaml")
    assert list(loaded.unknowns) == ["arm.links.upper.mass"]
    known = {"arm.links.upper.mass": 0.9}
    first, second = (run(s.with_values(known)).vertices for s in (scene, loaded))
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)


def test_links_are_drawn_where_their_vertices_are():
    box = gs.meshes.box((0.2, 0.6, 0.2))
    link = gs.Link(gs.Revolute(angle=0.8), density=100.0, mesh=box, look=gs.Look(color=(1.0, 0.0, 0.0)))
    camera = gs.Camera(eye=(0, 0, 3), target=(0, 0, 0), fov=40)
    scene = gs.Scene([gs.Articulated("door", {"leaf": link})], camera=camera)
    trajectory = run(scene, frames=1)
    rigid = gs.Rigid("box", box, 100.0, rotation=(0.0, 0.0, math.sin(0.4), math.cos(0.4)), look=link.look)
    other = gs.Scene([rigid], camera=camera)
    images = [gs.render(s, t, size=(48, 48))[0] for s, t in ((scene, trajectory), (other, run(other, frames=1)))]
    assert float((images[0] - images[1]).abs().max()) < 1e-6
    marker = gs.Marker("door", (0.1, 0.3, 0.1), link="leaf").positions(scene, trajectory)
    assert float((trajectory.vertices - marker[:, None]).norm(dim=-1).min(-1).values.max()) < 1e-12


def test_a_displaced_motion_moves_all_links():
    motion = run(TREE.build(TREE.values()), frames=2)["tree"]
    shift = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    torch.testing.assert_close(motion.displaced(shift).vertices, motion.vertices + shift, rtol=0, atol=1e-12)


def test_a_motion_is_interpolated_between_frames():
    scene = TREE.build(TREE.values())
    coarse, fine = run(scene, frames=5, fps=50.0), run(scene, frames=17, fps=200.0, substeps=40)
    sampled = coarse.sample(fine.time)
    reference = run(scene, frames=17, fps=200.0, substeps=10)
    assert float((sampled.vertices - reference.vertices).abs().max()) < 5e-3
    assert sampled["tree"].angles.shape == (17, 0)


def driven(samples):
    return gs.Link(gs.Revolute(torque=gs.Signal([1.0] * samples)))


BAD = {
    "parent": lambda: gs.Articulated("a", {"x": gs.Link(parent="y")}),
    "low": lambda: gs.Articulated("a", {"x": gs.Link(gs.Revolute(low=1.0, high=0.0))}),
    "axis": lambda: gs.Articulated("a", {"x": gs.Link(gs.Revolute(axis=(0, 0, 0)))}),
    "mass": lambda: gs.Articulated("a", {"x": gs.Link(mass=-1.0)}),
    "density": lambda: gs.Articulated("a", {"x": gs.Link(density=1.0)}),
    "links": lambda: gs.Articulated("a", {}),
    "signal of 3": lambda: gs.Articulated("a", {f"x{n}": driven(n) for n in (2, 3)}),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_bodies_are_refused_by_name(name):
    with pytest.raises(gs.InvalidInput, match=name):
        BAD[name]()


def test_the_reference_of_the_double_rods_is_that_of_scipy():
    from scipy.integrate import solve_ivp

    from gradsim.check.physics.articulated import ROD_ANGLES

    def rates(_, y):
        c, s = np.cos(y[0] - y[1]), np.sin(y[0] - y[1])
        force = (-0.5 * s * y[3] ** 2 - 1.5 * 9.81 * np.sin(y[0]), 0.5 * s * y[2] ** 2 - 0.5 * 9.81 * np.sin(y[1]))
        return [y[2], y[3], *np.linalg.solve([[4 / 3, 0.5 * c], [0.5 * c, 1 / 3]], force)]

    times = list(ROD_ANGLES)
    found = solve_ivp(rates, (0, 2), [1.5, 2.0, 0.5, 0.5], "DOP853", times, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.y[:2].T, list(ROD_ANGLES.values()), atol=2e-10)
