"""Tethers between nodes and rigid bodies: conservation, gradients, native against portable, limits with an answer."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim import bridge
from gradsim.scene.errors import OutOfRange, UnknownName, WrongType
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard

F64 = torch.float64
STILL = (0.0, 0.0, 0.0)
INTEGRATORS = [gs.SymplecticEuler(), gs.Midpoint(), gs.RungeKutta4()]
MESH = gs.meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))


def values():
    given = {
        "stiffness": [80.0, 120.0],
        "damping": [0.6, 0.2],
        "rest_length": [0.05, 0.0],
        "points": [[-0.1, 0.05, 0.02], [-0.1, -0.05, 0.03]],
        "velocity": [0.3, -0.2, 0.5],
        "angular_velocity": [1.0, -2.0, 0.5],
        "mass": 1.3,
        "center": [0.01, -0.02, 0.03],
        "mu": 4e3,
        "gravity": [0.2, -1.0, 0.1],
    }
    return {name: torch.tensor(value, dtype=F64) for name, value in given.items()}


def tethered(p, *, gravity=STILL, ground=None):
    """A soft box beside a rigid one, held together by two tethers, one of which has a rest length."""
    soft = gs.Soft("soft", MESH, 200.0, material=gs.NeoHookean(p["mu"], 4e3, 2.0), position=(0.0, 0.5, 0.0))
    hard = gs.Rigid(
        "hard",
        gs.meshes.box(0.2),
        mass=p["mass"],
        center=p["center"],
        position=(0.45, 0.5, 0.0),
        rotation=(0.1, 0.2, 0.3, 1.0),
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
    )
    right = np.flatnonzero(MESH.vertices[:, 0] > 0.19)[:2]
    rope = gs.Tether(
        "rope",
        body="soft",
        nodes=right,
        rigid="hard",
        points=gs.per_element(p["points"]),
        stiffness=gs.per_element(p["stiffness"]),
        damping=gs.per_element(p["damping"]),
        rest_length=gs.per_element(p["rest_length"]),
    )
    return gs.Scene([soft, hard], ground, gravity=gravity, forces=[rope])


def momenta(trajectory, scene):
    """Momentum [kg m/s] and angular momentum about the origin [kg m^2/s] of everything, [T, 3] each."""
    inverse = compile_scene(scene).parameters["node"][0, 0]
    soft, hard = trajectory["soft"], trajectory["hard"]
    node = (1.0 / inverse)[:, None] * soft.velocities
    whole = scene["hard"].mass * hard.velocity
    spin = torch.linalg.cross(hard.center_of_mass, whole) + hard.angular_momentum
    return node.sum(-2) + whole, torch.linalg.cross(soft.vertices, node).sum(-2) + spin


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda i: type(i).__name__)
def test_momentum_and_angular_momentum_are_conserved(integrator):
    scene = tethered(values())
    trajectory = gs.simulate(scene, frames=16, fps=30.0, substeps=64, integrator=integrator)
    moved = (trajectory["hard"].center_of_mass[-1] - trajectory["hard"].center_of_mass[0]).norm()
    assert moved > 0.05
    momentum, angular = momenta(trajectory, scene)
    assert (momentum - momentum[0]).abs().max() < 1e-10 * momentum.abs().max()
    truncation = {1: 1e-10, 2: 1e-5, 4: 1e-8}[integrator.order]  # symplectic Euler conserves it exactly
    assert (angular - angular[0]).abs().max() < truncation * angular.abs().max()


def test_angular_momentum_is_conserved_to_rounding_by_fine_steps():
    scene = tethered(values())
    _, angular = momenta(gs.simulate(scene, frames=4, substeps=1024, integrator=gs.RungeKutta4()), scene)
    assert (angular - angular[0]).abs().max() < 1e-10 * angular.abs().max()


@pytest.mark.parametrize("integrator", INTEGRATORS[:2], ids=lambda i: type(i).__name__)
def test_gradients_equal_central_differences(integrator):
    ground = gs.Ground(ke=2e3, kd=2.0, kf=5.0)

    def loss(p):
        scene = tethered(p, gravity=p["gravity"], ground=ground)
        trajectory = gs.simulate(scene, frames=4, fps=20.0, substeps=32, integrator=integrator)
        weights = torch.sin(torch.arange(trajectory.vertices.shape[-2] * 3, dtype=F64)).view(-1, 3)
        return (trajectory.vertices[-1] * weights).sum() + (trajectory.velocities[-1] * weights).sum()

    leaves = {name: value.requires_grad_() for name, value in values().items()}
    loss(leaves).backward()
    generator = torch.Generator().manual_seed(0)
    for name, leaf in leaves.items():
        value = leaf.detach()
        direction = torch.randn(value.shape, generator=generator, dtype=F64) * value.abs().clamp(min=0.02)
        if name == "rest_length":
            direction[1] = 0.0  # a rest length of zero is the border of the valid range
        errors = []
        for h in (1e-4, 1e-5, 1e-6):
            with torch.no_grad():
                ends = [loss({**leaves, name: value + sign * h * direction}) for sign in (1.0, -1.0)]
            difference = (ends[0] - ends[1]) / (2 * h)
            errors.append(abs((leaf.grad * direction).sum() - difference) / difference.abs())
        assert min(errors) < 1e-6, (name, errors)


@pytest.mark.parametrize(
    ("integrator", "dtype"),
    [*((integrator, torch.float64) for integrator in INTEGRATORS), (INTEGRATORS[0], torch.float32)],
    ids=lambda value: str(value) if isinstance(value, torch.dtype) else type(value).__name__,
)
def test_native_rollout_equals_the_portable_one(integrator, dtype):
    """Three worlds of bodies that also touch the ground: states and all gradients."""
    own = {name: torch.stack([v, 1.01 * v, 0.98 * v]).to(dtype) for name, v in values().items()}
    offset = torch.tensor(0.45, dtype=dtype)  # a tensor, so that it has a gradient
    compiled = compile_scene(tethered(own, gravity=own["gravity"], ground=gs.Ground(ke=1e3, offset=offset)))
    bridge.initialize()
    found = []
    for native in (True, False):
        shard = BatchShard(compiled.topology, 3, integrator, dtype, torch.device("cpu"), native)
        shard.load(dict(compiled.parameters), compiled.signals, 1e-3)
        shard.reserve(20, math.inf)
        for name, state in compiled.states.items():
            shard.vectors(name).copy_(state)
        shard.run(0, 20, 0, 20)
        ends = {name: shard.vectors(name).clone() for name in shard.state_names}
        generator = torch.Generator().manual_seed(3)
        for name in shard.state_names:
            seed = torch.randn(ends[name].shape, generator=generator, dtype=F64).to(dtype)
            shard.vectors(f"{name}_adj").copy_(tangent(seed, ends[name]) if name == "rigid.q" else seed)
        shard.clear_gradients()
        shard.run_back(0, 20, 0, 20)
        for name in shard.state_names:
            adjoint = shard.vectors(f"{name}_adj").clone()
            ends[f"{name} adjoint"] = tangent(adjoint, compiled.states[name]) if name == "rigid.q" else adjoint
        ends |= {f"{family} gradient": table.clone() for family, table in shard.gradients()[0].items()}
        found.append(ends)
    tolerance = {torch.float64: 1e-11, torch.float32: 5e-4}[dtype]
    for name, native in found[0].items():
        scale = found[1][name].abs().amax()
        assert (native - found[1][name]).abs().amax() <= tolerance * scale, name
        assert scale > 0, f"{name} is not exercised"


def tangent(adjoint, q):
    """The part of an adjoint of unit quaternions that changes rotations."""
    return adjoint - q * (adjoint * q).sum(-1, keepdim=True)


def test_two_masses_on_a_tether_oscillate_at_their_reduced_mass():
    """A point mass and a rigid body, pulled apart along the line of their centres."""
    m, M, k = 0.5, 2.0, 50.0
    ball = gs.Springs("ball", [[0.3, 0.0, 0.0]], np.zeros((0, 2)), mass=m)
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=M)
    rope = gs.Tether("rope", body="ball", nodes=0, rigid="cube", stiffness=k, rest_length=0.2)
    period = 2 * math.pi / math.sqrt(k * (1 / m + 1 / M))
    scene = gs.Scene([ball, cube], gravity=STILL, forces=[rope])
    motion = gs.simulate(scene, frames=3, fps=2 / period, substeps=400, integrator=gs.RungeKutta4())
    apart = (motion["ball"].position - motion["cube"].position)[:, 0]
    assert apart.tolist() == pytest.approx([0.3, 0.1, 0.3], abs=1e-7)


def test_damping_takes_as_much_energy_as_its_force_works():
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=1.0, velocity=(1.0, 0.0, 0.0))
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=1e9)
    rope = gs.Tether("rope", body="ball", nodes=0, rigid="cube", stiffness=0.0, damping=3.0)
    scene = gs.Scene([ball, cube], gravity=STILL, forces=[rope])
    motion = gs.simulate(scene, frames=3, fps=10.0, substeps=200, integrator=gs.RungeKutta4())
    expected = [math.exp(-3.0 * t) for t in (0.0, 0.1, 0.2)]
    assert motion["ball"].velocity[:, 0].tolist() == pytest.approx(expected, rel=1e-8)


def test_stable_dt_counts_the_tether():
    ball = gs.Springs("ball", [[0.3, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5)
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=2.0)
    scene = gs.Scene([ball, cube], forces=[gs.Tether("rope", body="ball", nodes=0, rigid="cube", stiffness=1e4)])
    light = math.sqrt(1e4 * (1 / 0.5 + 1 / 2.0))
    assert 0.1 * 2 / light < gs.stable_dt(scene, gs.SymplecticEuler()) <= 2 / light


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"body": "cube"}, WrongType, r"rope\.body = 'cube', a Rigid: must name a gs\.Soft"),
        ({"body": "bal"}, UnknownName, r"rope\.body = 'bal': the bodies that it can act on are ball"),
        ({"rigid": "ball"}, WrongType, r"rope\.rigid = 'ball', a Springs"),
        ({"nodes": 1}, OutOfRange, r"rope\.nodes = 1: node indices must lie in \[0, 1\)"),
        ({"stiffness": -1.0}, OutOfRange, r"rope\.stiffness"),
        ({"name": "cube"}, gs.InvalidInput, "name of its own"),
    ],
)
def test_wrong_tethers_are_refused(change, error, words):
    ball = gs.Springs("ball", [[0.3, 0.0, 0.0]], np.zeros((0, 2)))
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=2.0)
    with pytest.raises(error, match=words):
        gs.Scene(
            [ball, cube], forces=[gs.Tether(**{"name": "rope", "body": "ball", "nodes": 0, "rigid": "cube"} | change)]
        )


def test_tethers_are_written_and_read_again(tmp_path):
    scene = tethered(values())
    scene.save(tmp_path / "scene.yaml")
    (rope,) = gs.load_scene(tmp_path / "scene.yaml").forces
    assert (rope.body, rope.rigid, rope.nodes.tolist()) == ("soft", "hard", scene.forces[0].nodes.tolist())
    assert np.array_equal(rope.stiffness.values, [80.0, 120.0])
