"""Contact of nodes with nodes: conservation, gradients, native against portable, no crossing."""

import numpy as np
import pytest
import torch
from tests.simulate.differences import F64, assert_gradients, assert_native_equals_portable, gradient_errors, tensors

import gradsim as gs
from gradsim.scene.errors import WrongShape, WrongType
from gradsim.simulate.compile.compiled_scene import compile_scene

SHEET = gs.meshes.grid(0.4, 6)
BLOCK = gs.meshes.tet_box((0.2, 0.2, 0.2), (2, 2, 2))


def sheet_values():
    given = {"ke": 300.0, "kd": 0.05, "kf": 0.1, "mu": 0.3, "delta": 0.003, "radius": 0.03, "density": 0.5}
    return tensors({**given, "velocity": [0.1, -1.0, 0.1]})


def law_of(p, **changes):
    given = {name: p[name] for name in ("ke", "kd", "kf", "mu", "delta", "radius")}
    return gs.SelfContact(**{**given, **changes})


def sheets(p, **changes):
    """Two sheets that collide, with no other forces."""
    own = {"material": gs.Membrane(100.0, 100.0, 0.1), "self_contact": law_of(p, **changes)}
    a = gs.Cloth("a", SHEET, p["density"], **own)
    b = gs.Cloth("b", SHEET, p["density"], position=(0.013, 0.08, 0.021), velocity=p["velocity"], **own)
    return gs.Scene([a, b], gravity=(0.0, 0.0, 0.0))


def blocks(p):
    own = {"material": gs.NeoHookean(4e3, 4e3, 5.0), "self_contact": law_of(p, within=False, ke=p["ke"] * 3)}
    a = gs.Soft("a", BLOCK, 100.0, **own)
    b = gs.Soft(
        "b", BLOCK, 150.0, position=(0.03, 0.27, -0.02), velocity=p["velocity"], rotation=(0.1, 0.2, 0.0, 1.0), **own
    )
    return gs.Scene([a, b], gravity=(0.0, 0.0, 0.0))


def momenta(scene, trajectory):
    """Momentum and angular momentum about the origin, [T, 3] each."""
    mass = 1.0 / compile_scene(scene).parameters["node"][0, 0]
    p = mass[:, None] * trajectory.velocities
    return p.sum(-2), torch.linalg.cross(trajectory.vertices, p).sum(-2)


TIME = {"frames": 6, "fps": 50.0, "substeps": 64}


def test_momentum_is_conserved_and_angular_momentum_without_friction():
    integrator = gs.SymplecticEuler()
    for friction in (0.3, 0.0):
        scene = sheets({**sheet_values(), "mu": torch.tensor(friction, dtype=F64)})
        trajectory = gs.simulate(scene, integrator=integrator, **TIME)
        momentum, angular = momenta(scene, trajectory)
        assert trajectory["a"].velocities[-1].abs().max() > 0.3
        assert (momentum - momentum[0]).abs().max() < 1e-13 * momentum.abs().max()
    assert (angular - angular[0]).abs().max() < 1e-12 * angular.abs().max()


def test_an_undamped_collision_keeps_the_energy():
    values = {**sheet_values(), "kd": torch.tensor(0.0, dtype=F64), "mu": torch.tensor(0.0, dtype=F64)}
    own = {"material": gs.Membrane(100.0, 100.0), "self_contact": law_of(values)}
    a = gs.Cloth("a", SHEET, 0.5, **own)
    b = gs.Cloth("b", SHEET, 0.5, position=(0.0, 0.08, 0.0), velocity=(0.0, -1.0, 0.0), **own)
    scene = gs.Scene([a, b], gravity=(0.0, 0.0, 0.0))
    trajectory = gs.simulate(scene, frames=8, fps=50.0, substeps=256)
    inverse = compile_scene(scene).parameters["node"][0, 0]
    kinetic = (trajectory.velocities**2 / inverse[:, None]).sum((-2, -1)) / 2
    # Equal sheets that meet node on node are chains of equal masses: they exchange their velocities.
    assert (kinetic[-1] / kinetic[0] - 1.0).abs() < 1e-4
    assert (trajectory["a"].velocities[-1].mean(0)[1] + 1.0).abs() < 1e-3


def test_gradients_equal_differences():
    assert_gradients(sheets, sheet_values(), **TIME)
    values = {name: value for name, value in sheet_values().items() if name != "density"}
    assert_gradients(blocks, values, **{**TIME, "frames": 8})


def test_gradients_hold_at_useful_steps():
    errors = gradient_errors(sheets, sheet_values(), steps=(1e-3, 1e-4, 1e-5), **TIME)
    medians = np.median(np.array(list(errors.values())), axis=0)
    assert (medians < [2e-3, 2e-4, 1e-5]).all(), errors


@pytest.mark.parametrize("build", [sheets, blocks])
def test_native_pairs_equal_portable_pairs(build):
    values = {name: torch.stack([v, v * 1.03]) for name, v in sheet_values().items()}
    assert_native_equals_portable(build(values), gs.Midpoint(), steps=90, dt=4e-4)


def test_the_list_of_pairs_does_not_change_the_motion():
    """A translation of everything renews the list at other times; a long rollout is the same in several calls."""
    scene = sheets(sheet_values())
    whole = gs.simulate(scene, frames=9, fps=50.0, substeps=64)
    start, pieces = None, []
    for _ in range(2):
        part = gs.simulate(scene, frames=5, fps=50.0, substeps=64, start=start)
        start = part.final
        pieces.append(part.vertices[-1])
    assert torch.equal(pieces[0], whole.vertices[4])
    assert torch.equal(pieces[1], whole.vertices[8])


def test_scene_files_paths_and_errors(tmp_path):
    scene = sheets(sheet_values())
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert "a.self_contact.ke" in {path for path, _, _ in loaded.quantities()}
    assert torch.equal(gs.simulate(loaded, **TIME).vertices, gs.simulate(scene, **TIME).vertices)
    assert gs.Cloth("a", SHEET, 0.5, self_contact=True).self_contact.within
    with pytest.raises(WrongType, match=r"must be True, False or a gs.SelfContact"):
        gs.Cloth("a", SHEET, 0.5, self_contact=3.0)
    with pytest.raises(WrongShape, match="its body has 49 nodes"):
        gs.Cloth("a", SHEET, 0.5, self_contact=gs.SelfContact(radius=gs.per_element(np.ones(3))))
