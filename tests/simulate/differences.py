"""Gradients against central differences, and native kernels against portable ones, for scenes in tests."""

import math

import torch

import gradsim as gs
from gradsim import bridge
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard

F64 = torch.float64
CPU = torch.device("cpu")


def tensors(values):
    return {name: torch.tensor(value, dtype=F64) for name, value in values.items()}


def weighted(trajectory):
    """A loss in which every vertex and velocity counts differently, at the last frame and one before."""
    weights = torch.sin(torch.arange(trajectory.vertices.shape[-2] * 3, dtype=F64)).view(-1, 3)
    late = (trajectory.vertices[-1] * weights).sum() + (trajectory.velocities[-1] * weights.roll(1, 0)).sum()
    return late + 0.5 * (trajectory.vertices[-2] * weights.roll(2, 0)).sum()


def gradient_errors(build, values, steps=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7), loss=weighted, **options):
    """Relative errors of the directional derivative of each parameter, one for each relative step."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    loss(gs.simulate(build(leaves), **options)).backward()
    generator = torch.Generator().manual_seed(0)
    found = {}
    for name, leaf in leaves.items():
        value = leaf.detach()
        direction = torch.randn(value.shape, generator=generator, dtype=F64) * value.abs().clamp(min=0.02)
        errors = []
        for h in steps:
            with torch.no_grad():
                ends = [
                    loss(gs.simulate(build({**leaves, name: value + sign * h * direction}), **options))
                    for sign in (1.0, -1.0)
                ]
            difference = (ends[0] - ends[1]) / (2 * h)
            assert difference.abs() > 0, f"{name} is not exercised"
            errors.append(float(abs((leaf.grad * direction).sum() - difference) / difference.abs()))
        found[name] = errors
    return found


def assert_gradients(build, values, tolerance=1e-6, **options):
    for name, errors in gradient_errors(build, values, **options).items():
        assert min(errors) < tolerance, (name, errors)


def rollouts(scene, integrator, dtype=F64, steps=6, dt=2e-3, worlds=2):
    """States and gradients of all inputs after some steps, by native and by portable kernels."""
    bridge.initialize()
    compiled = compile_scene(scene, dtype=dtype)
    found = []
    for native in (True, False):
        shard = BatchShard(compiled.topology, compiled.world_count, integrator, dtype, CPU, native)
        shard.reserve(steps, math.inf)
        shard.load({f: compiled.parameters[f] for f in shard.parameters}, compiled.signals, dt)
        for name, state in compiled.states.items():
            shard.vectors(name).copy_(state)
        if compiled.topology.is_prescribed:
            shard.run(0, 0, 0, steps, keep=False)
        shard.run(0, steps, 0, steps)
        ends = {name: shard.vectors(name).clone() for name in shard.state_names}
        shard.clear_gradients()
        generator = torch.Generator().manual_seed(7)
        for adjoint in shard.states("_adj"):
            adjoint.copy_(torch.randn(adjoint.shape, generator=generator, dtype=F64))
        shard.run_back(0, steps, 0, steps)
        if compiled.topology.is_prescribed:
            shard.run_back(0, 0, 0, steps)
        parameters, samples = shard.gradients()
        grads = {f"{name}_adj": a.clone() for name, a in zip(shard.state_names, shard.states("_adj"), strict=True)}
        q = ends.get("rigid.q")
        if q is not None:  # native adjoints of a rotation have no component along the quaternion
            start, own = compiled.states["rigid.q"], grads["rigid.q_adj"]
            grads["rigid.q_adj"] = own - start * (own * start).sum(-1, keepdim=True)
        grads |= {
            name: table.clone() for name, table in parameters.items() if name not in ("node_motion", "rigid_motion")
        }
        grads |= {f"signal {k} {shard.topology.signals[k]}": s.clone() for k, s in enumerate(samples)}
        found.append({**ends, **grads})
    return found


def assert_native_equals_portable(scene, integrator, dtype=F64, tolerance=None, skip=(), **options):
    ours, reference = rollouts(scene, integrator, dtype, **options)
    limit = tolerance or {torch.float64: 1e-11, torch.float32: 2e-3}[dtype]
    least = 1e-9 * max(
        float(value.abs().max()) for value in reference.values() if value.numel()
    )  # what is zero but for rounding
    for name, value in reference.items():
        if not value.numel() or any(part in name for part in skip):
            continue
        assert (ours[name] - value).abs().max() <= limit * max(float(value.abs().max()), least), name
