"""Sticking friction: declarations, files, state, time integration, and the law at its limits."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import warp as wp

import gradsim as gs
from gradsim import bridge
from gradsim.check.gradcheck import adjoint_gradients
from gradsim.check.gradient_problems.sticking import STICKING_BOX, STICKING_SHAPES, STICKING_SOFT
from gradsim.check.gradients import objective
from gradsim.check.physics.friction import plank_angle
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.forces.sticking import sticking_functions

F64 = torch.float64


def block_on_slope(angle=25.0, *, mu=0.6, gravity=9.81, **contact):
    """Returns a block on the ground, with gravity tilted by an angle [degree]."""
    a = math.radians(angle)
    block = gs.Rigid("block", gs.meshes.box(0.2), mass=2.0, position=(0.0, 0.0993, 0.0))
    ground = gs.Ground(ke=5e3, kd=20.0, mu=mu, **({"friction": gs.Sticking()} | contact))
    return gs.Scene([block], ground, gravity=(gravity * math.sin(a), -gravity * math.cos(a), 0.0))


def test_a_sticking_block_does_not_creep_where_a_regularized_one_does():
    times = {"frames": 31, "fps": 30.0, "substeps": 32}
    moved = {}
    for friction in (gs.Sticking(), gs.Regularized()):
        x = gs.simulate(block_on_slope(friction=friction), **times)["block"].position[:, 0]
        moved[type(friction)] = float(x[-1] - x[15])
    assert abs(moved[gs.Sticking]) < 1e-8
    assert moved[gs.Regularized] > 0.1


def test_the_anchors_are_part_of_the_state():
    """Continued from its last state a block rests; with the anchors dropped it slips until new ones carry it."""
    times = {"fps": 30.0, "substeps": 32}
    scene = block_on_slope()
    whole = gs.simulate(scene, frames=31, **times)
    half = gs.simulate(scene, frames=16, **times)
    assert half.final.others["rigid_anchor.xi"].abs().max() > 1e-5
    rest = gs.simulate(scene, frames=16, start=half.final, **times)
    assert torch.equal(rest["block"].position, whole["block"].position[15:])
    others = {name: value for name, value in half.final.others.items() if name != "rigid_anchor.xi"}
    dropped = gs.simulate(scene, frames=16, start=gs.State(others=others), **times)
    assert float(dropped["block"].position[-1, 0] - whole["block"].position[-1, 0]) > 1e-5


@pytest.mark.parametrize(
    ("problem", "limit"), [(STICKING_BOX, 40_000), (STICKING_SHAPES, 40_000), (STICKING_SOFT, 100_000)]
)
def test_recomputed_gradients_equal_stored_ones(problem, limit):
    values = {name: value.clone().requires_grad_() for name, value in problem.values().items()}
    found = []
    for memory in (None, limit):
        run = gs.simulate(
            problem.build(values), frames=problem.frames, fps=problem.fps, substeps=problem.substeps, memory=memory
        )
        found.append(torch.autograd.grad(run.vertices.square().sum(), list(values.values())))
    for stored, recomputed in zip(*found, strict=True):
        assert torch.allclose(stored, recomputed, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(
    ("integrator", "dtype"),
    [(gs.SymplecticEuler(), torch.float32), (gs.Midpoint(), F64), (gs.RungeKutta4(), F64)],
    ids=str,
)
def test_native_nodes_equal_portable_nodes(integrator, dtype):
    """States, anchors and all gradients after 60 steps, in three worlds."""
    steps, found = 60, []
    for native in (True, False):
        values = {
            n: torch.stack([v * (1 + 0.01 * k) for k in range(3)]).to(dtype) for n, v in STICKING_SOFT.values().items()
        }
        compiled = compile_scene(STICKING_SOFT.build(values))
        bridge.initialize()
        shard = BatchShard(compiled.topology, 3, integrator, dtype, torch.device("cpu"), native)
        shard.load({family: compiled.parameters[family] for family in shard.parameters}, compiled.signals, 4e-4)
        shard.reserve(steps, math.inf)
        for name, state in compiled.states.items():
            shard.vectors(name).copy_(state)
        shard.run(0, steps, 0, steps)
        ends = {name: shard.vectors(name).clone() for name in shard.state_names}
        generator = torch.Generator().manual_seed(3)
        for name in shard.state_names:
            shard.vectors(f"{name}_adj").copy_(torch.randn(ends[name].shape, generator=generator, dtype=F64))
        shard.clear_gradients()
        shard.run_back(0, steps, 0, steps)
        adjoints = {f"{name} adjoint": shard.vectors(f"{name}_adj").clone() for name in shard.state_names}
        found.append(ends | adjoints | {name: table.clone() for name, table in shard.gradients()[0].items()})
    assert found[1]["node_anchor.xi"].abs().max() > 1e-6
    for name, expected in found[1].items():
        if expected.numel():
            error = float((found[0][name] - expected).abs().max() / (expected.abs().max() + 1e-30))
            assert error < (1e-10 if dtype == F64 else 2e-2), name


def test_order_of_midpoint_with_a_sticking_block():
    """A block that is pulled to and fro without slipping follows a smooth motion: second order."""
    a = math.radians(10.0)
    ends = {}
    for substeps in (150, 300, 600, 3200):
        block = gs.Rigid("block", gs.meshes.box(0.2), mass=2.0, position=(0.0, 0.0985, 0.0))
        ground = gs.Ground(ke=5e3, kd=20.0, mu=0.9, delta=1e-5, friction=gs.Sticking(damping=0.2 * 150 / substeps))
        scene = gs.Scene([block], ground, gravity=(9.81 * math.sin(a), -9.81 * math.cos(a), 0.0))
        ends[substeps] = gs.simulate(scene, frames=2, fps=20.0, substeps=substeps)["block"].position[-1]
    errors = [float((ends[substeps] - ends[3200]).norm()) for substeps in (150, 300, 600)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.25)


@pytest.mark.parametrize("real", [wp.float64, wp.float32], ids=["float64", "float32"])
def test_the_law_at_its_limits(real):
    """Slow slip is a damped spring, fast slip lies on the cone, and without a normal force nothing acts."""
    bridge.initialize()
    friction = sticking_functions(real).friction
    vec3 = wp.types.vector(3, real)

    @wp.kernel(enable_backward=False)
    def evaluate(v: wp.array(dtype=vec3), fn: wp.array(dtype=real), xi: wp.array(dtype=vec3), f: wp.array(dtype=vec3)):
        i = wp.tid()
        along, anchor = friction(
            vec3(real(0.0), real(1.0), real(0.0)), v[i], fn[i], xi[i], real(0.5), real(1e4), real(50.0), real(1e-3)
        )
        f[2 * i] = along
        f[2 * i + 1] = anchor

    v = np.array([[1e-6, 3.0, 0.0], [3.0, 0.0, 4.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    xi = np.array([[1e-5, 7.0, 2e-5], [0.0, 0.0, 0.0], [1e-3, 0.0, 0.0], [1.0, 0.0, 0.0]])
    arrays = [
        wp.array(a, dtype=kind, device="cpu") for a, kind in ((v, vec3), ([10.0, 10.0, 0.0, 10.0], real), (xi, vec3))
    ]
    out = wp.zeros(8, dtype=vec3, device="cpu")
    wp.launch(evaluate, 4, inputs=arrays, outputs=[out], device="cpu")
    force, anchor = out.numpy()[::2], out.numpy()[1::2]
    moved = np.array([1e-5 + 1e-9, 0.0, 2e-5])
    assert np.allclose(anchor[0], moved, rtol=1e-6, atol=1e-12)
    assert np.allclose(force[0], -1e4 * moved - 50.0 * np.array([1e-6, 0.0, 0.0]), rtol=1e-5, atol=1e-7)
    assert np.allclose(force[1], -5.0 * np.array([0.6, 0.0, 0.8]), rtol=1e-4)
    assert np.abs(anchor[1]).max() < 1e-6
    assert not force[2].any()
    assert not anchor[2].any()
    assert np.allclose(anchor[3], [1.5 * 5.0 / 1e4, 0.0, 0.0], rtol=1e-6)
    assert 0.99 * 5.0 < np.linalg.norm(force[3]) <= 5.0


def test_gradient_of_friction_that_is_zero():
    """Without friction the coefficient still has the gradient of its cone."""
    block = block_on_slope(20.0, mu=torch.tensor(0.0, dtype=F64, requires_grad=True))
    motion = gs.simulate(block, frames=7, fps=30.0, substeps=32)["block"]
    (gradient,) = torch.autograd.grad(motion.position[-1, 0], [block.ground.mu])
    a = math.radians(20.0)
    assert float(gradient) == pytest.approx(-9.81 * math.cos(a) * 0.2**2 / 2, rel=0.05)


def test_an_unknown_coefficient_of_friction():
    scene = block_on_slope(mu=gs.unknown(0.3, low=0.0, high=1.0))
    assert list(scene.unknowns) == ["ground.mu"]
    assert scene.with_values({"ground.mu": 0.4}).ground.sticks


def test_scene_files_keep_the_friction(tmp_path):
    scene = dataclasses.replace(
        block_on_slope(friction=gs.Sticking(damping=0.1)),
        shapes={"box": gs.StaticBox(friction=gs.Regularized(), kf=3.0)},
    )
    scene.save(tmp_path / "scene.yaml")
    assert "sticking" in (tmp_path / "scene.yaml").read_text()
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert loaded.ground.friction == gs.Sticking(damping=0.1)
    assert loaded.ground.kf is None
    assert loaded.shapes["box"].friction == gs.Regularized()
    assert loaded.shapes["box"].kf == 3.0
    (tmp_path / "short.yaml").write_text(
        "bodies: [{rigid: {name: cube, mesh: {box: 0.2}, mass: 1}}]\nground: {friction: sticking}\n"
    )
    assert gs.load_scene(tmp_path / "short.yaml").ground.friction == gs.Sticking()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gs.Ground(friction=gs.Sticking(), kf=10.0), "Ground.kf = 10.0"),
        (lambda: gs.Contact(friction="sticking"), "Contact.friction = str"),
        (lambda: gs.Sticking(stiffness=0.0), "Sticking.stiffness = 0.0"),
        (lambda: gs.Sticking(damping="high"), "Sticking.damping = 'high'"),
    ],
)
def test_errors_name_the_parameter(build, message):
    with pytest.raises(gs.InvalidInput) as caught:
        build()
    assert message in str(caught.value)


def test_smallest_angle_of_a_plank():
    """A thin plank with friction mu at floor and wall holds if tan a >= (1 - mu^2) / (2 mu)."""
    assert math.degrees(plank_angle(0.4)) == pytest.approx(math.degrees(math.atan(0.84 / 0.8)), abs=2.0)


def test_mass_gradient_includes_the_damping_of_slip():
    """Damping is proportional to the mass, so the motion of a block without push does not depend on its mass."""

    def loss(values):
        p = STICKING_BOX.values() | values
        scene = STICKING_BOX.build(p | {"ke": p["ke"] * p["density"] / 200.0, "kd": p["kd"] * p["density"] / 200.0})
        return gs.simulate(scene, frames=5, fps=100.0, substeps=25)["body"].position.sum()

    gradient = adjoint_gradients(loss, {"density": torch.tensor(200.0, dtype=F64)})
    assert abs(float(gradient["density"])) * 200.0 < 1e-9
    whole = adjoint_gradients(objective(STICKING_BOX, gs.Midpoint()), STICKING_BOX.values())
    assert abs(float(whole["density"])) * 200.0 > 1e-3
