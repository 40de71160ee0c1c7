"""Native kernels and hand-written adjoints against the portable kernels and Warp's own adjoints."""

import dataclasses
import math

import pytest
import torch

from gradsim import bridge
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.forces.node_contact import node_contact_kernels
from gradsim.simulate.forces.sticking import STICKING_ROWS

CPU = torch.device("cpu")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-4}


def problem(name):
    return next(p for p in PROBLEMS if p.name == name)


def loaded_shard(scene_problem, dtype, native, change=lambda values: values, integrator=SymplecticEuler(), dt=1.0):
    """Returns a shard of three worlds in a strained and moving state.

    With a step of one second the forces contribute as much to the adjoints as the state does.
    """
    values = {name: value.to(dtype) for name, value in change(scene_problem.values()).items()}
    values = {name: torch.stack([value, value * 1.01, value * 0.98]) for name, value in values.items()}
    compiled = compile_scene(scene_problem.build(values))
    bridge.initialize()
    shard = BatchShard(compiled.topology, 3, integrator, dtype, CPU, native)
    parameters = {family: compiled.parameters[family] for family in shard.parameters}
    shard.load(parameters, compiled.signals, dt)
    shard.reserve(1, math.inf)
    for name, state in compiled.states.items():
        shard.vectors(name).copy_(state)
    return shard


def keep_force(shard, family):
    """Removes all forces but those of one family."""
    system, rollout = shard.system, shard.system.world_rollout
    if rollout is None:
        selected = tuple(force for force in system.portable.forces if force.family.name == family)
        shard.system = dataclasses.replace(system, portable=dataclasses.replace(system.portable, forces=selected))
    else:
        selected = tuple(force for force in rollout.forces if force.family == family)
        rollout = dataclasses.replace(rollout, forces=selected).with_history(rollout.history)
        shard.system = dataclasses.replace(system, world_rollout=rollout)


def forces(shard):
    """Returns the forces at the start of a step."""
    shard.clear_forces()
    shard.run(3, 1, 0, 10)
    return shard.recorded("node.f")[0].clone()


def adjoints(shard):
    """Returns what the forces of that step add to the adjoints, from an adjoint of the final velocities."""
    shard.clear_gradients()
    x_adj, v_adj = shard.states("_adj")
    generator = torch.Generator().manual_seed(5)
    seed = torch.randn(v_adj.shape, generator=generator, dtype=torch.float64).to(v_adj.dtype)
    x_adj.zero_()
    v_adj.copy_(seed)
    shard.run_back(3, 1, 0, 10)
    parameters, samples = shard.gradients()
    found = {"x": x_adj, "v": v_adj - seed}
    for family, gradient in parameters.items():
        bound = {signal.row for signal in shard.topology.signals if signal.family == family}
        if family != "node":
            rows = list(shard.topology.families[family].rows)
            rows = rows[:4] if family == "shape" else rows  # a plane's normal and offset
            rows = [row for row in rows if row not in STICKING_ROWS]  # numbers without gradient
            found |= {f"{family}.{r}": gradient[:, k] for k, r in enumerate(rows) if r not in bound}
    return {**found, **{f"signal {k}": s for k, s in enumerate(samples)}}


def assert_close(a, b, dtype, name):
    scale = b.abs().amax()
    assert scale > 0, f"{name} is not exercised"
    assert (a - b).abs().amax() <= TOLERANCE[dtype] * scale, name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", ["soft body in flight", "cloth in the air"])
def test_native_elements_equal_portable_elements(name, dtype):
    native, portable = (loaded_shard(problem(name), dtype, choice) for choice in (True, False))
    assert_close(forces(native), forces(portable), dtype, "forces")
    ours, warps = adjoints(native), adjoints(portable)
    for key, found in ours.items():
        assert_close(found, warps[key], dtype, key)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_native_bending_equals_portable_bending_at_every_angle(dtype):
    def crumple(values):
        noise = torch.randn(values["vertices"].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        values["vertices"] = values["vertices"] + 0.08 * noise  # cells are 0.1 m wide: angles of all sizes
        return values

    native, portable = (loaded_shard(problem("cloth in the air"), dtype, choice, crumple) for choice in (True, False))
    for shard in (native, portable):
        keep_force(shard, "bend")
    assert_close(forces(native), forces(portable), dtype, "forces")
    ours, warps = adjoints(native), adjoints(portable)
    for key in ("x", "v", "bend.stiffness", "bend.damping"):
        assert_close(ours[key], warps[key], dtype, key)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("integrator", [SymplecticEuler(), Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("name", ["cloth in the air", "soft body in flight"])
def test_native_steps_equal_portable_steps(name, integrator, dtype):
    found = []
    for choice in (True, False):
        shard = loaded_shard(problem(name), dtype, choice, integrator=integrator, dt=1e-3)
        shard.reserve(3, math.inf)
        shard.clear_forces()
        shard.run(2, 3, 0, 10)
        ends = [state.clone() for state in shard.states()]
        shard.clear_gradients()
        generator = torch.Generator().manual_seed(7)
        for adjoint in shard.states("_adj"):
            adjoint.copy_(torch.randn(adjoint.shape, generator=generator, dtype=torch.float64))
        shard.run_back(2, 3, 0, 10)
        parameters, samples = shard.gradients()
        recorded = [shard.recorded(state).clone() for state in shard.state_names]
        gradients = [parameters[family].clone() for family in ("node", "tet", "triangle") if family in parameters]
        found.append([*ends, *recorded, *shard.states("_adj"), *gradients, *samples])
    for ours, reference in zip(*found, strict=True):
        assert_close(ours, reference, dtype, name)


def press_into_ground(delta):
    """Returns a function that moves a spring net into the ground."""

    def press(values):
        values["position"] = values["position"] - torch.tensor([0.0, 0.03, 0.0])
        values["delta"] = torch.tensor(delta, dtype=torch.float64)
        return values

    return press


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("delta", [0.0, 0.004, 0.05])
@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_adjoints_of_springs_and_contact_equal_warp_adjoints(native, delta, dtype):
    net = problem("spring net hits the ground")
    hand, tape = (loaded_shard(net, dtype, choice, press_into_ground(delta)) for choice in (native, False))
    kernels = node_contact_kernels(bridge.real_type(dtype), tape=True)
    *others, contact = tape.system.portable.forces
    swapped = dataclasses.replace(tape.system.portable, forces=(*others, dataclasses.replace(contact, kernels=kernels)))
    tape.system = dataclasses.replace(tape.system, portable=swapped)
    assert_close(forces(hand), forces(tape), dtype, "forces")
    ours, warps = adjoints(hand), adjoints(tape)
    if delta == 0.0:  # the paper's law does not depend on delta
        assert ours.pop("node_contact.delta").abs().amax() == 0
    for key, found in ours.items():
        assert_close(found, warps[key], dtype, key)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_native_contact_equals_portable_contact_for_every_shape(dtype):
    found = []
    for choice in (True, False):
        shard = loaded_shard(problem("soft body runs into shapes"), dtype, choice)
        keep_force(shard, "node_contact")
        generator = torch.Generator().manual_seed(1)
        for state in shard.states():
            state.copy_(0.15 * torch.randn(state.shape, generator=generator, dtype=torch.float64))
        found.append((forces(shard), adjoints(shard)))
    (force, ours), (portable, warps) = found
    assert_close(force, portable, dtype, "forces")
    for shape in range(3):  # pairs are listed shape by shape
        ke = warps["node_contact.ke"].unflatten(1, (3, -1))[:, shape]
        assert (ke != 0).sum() >= 3, f"too few nodes touch shape {shape}"
    for key in (
        "x",
        "v",
        "node_contact.ke",
        "node_contact.kd",
        "node_contact.kf",
        "node_contact.mu",
        "node_contact.delta",
    ):
        assert_close(ours[key], warps[key], dtype, key)
