"""Smoothed tetrahedra: patch test, invariants, gradients, stable step, bending without locking, scene files."""

import numpy as np
import pytest
import torch
from tests.simulate.differences import F64, assert_gradients, assert_native_equals_portable, tensors

import gradsim as gs
from benchmarks import locking
from gradsim.scene.errors import WrongType
from gradsim.simulate.forces.smoothing_domains import domain_volumes, smoothing_domains, tet_means, volume_means
from gradsim.simulate.forces.smoothing_order import smoothing_order

MESH = gs.meshes.tet_box((0.4, 0.3, 0.2), (3, 2, 2))
SMOOTH = {"element": gs.SmoothedTet()}


def accelerations(mesh=MESH, vertices=None, velocity=(0.0, 0.0, 0.0), steps=1e4, material=None, **options):
    """Accelerations of the nodes of a free body of unit density [m/s^2], [N, 3]."""
    material = material or gs.NeoHookean(2e3, 5e3, 7.0)
    body = gs.Soft("body", mesh, 1.0, material=material, vertices=vertices, velocity=velocity, **options)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=2, fps=steps, substeps=1, integrator=gs.SymplecticEuler())
    return ((motion.velocities[1] - motion.velocities[0]) * steps).numpy()


def crumpled(seed=0, amount=0.02):
    return MESH.vertices + np.random.default_rng(seed).normal(size=MESH.vertices.shape) * amount


def test_homogeneous_deformation_has_the_stress_of_linear_tetrahedra():
    turn = np.eye(3) + 0.15 * np.random.default_rng(0).normal(size=(3, 3))
    velocity = gs.per_element(MESH.vertices @ np.random.default_rng(1).normal(size=(3, 3)))
    given = {"vertices": MESH.vertices @ turn.T, "velocity": velocity, "actuation": 0.1}
    smoothed, linear = accelerations(**given, **SMOOTH), accelerations(**given, element=gs.LinearTet())
    assert np.abs(smoothed - linear).max() < 1e-12 * np.abs(linear).max()


def test_averages_of_volume_are_means_and_symmetric():
    """The force is the transpose of the mean change of volume only if the second average is symmetric by volume."""
    volume = MESH.volumes * np.random.default_rng(4).uniform(0.5, 2.0, len(MESH.tets))
    _, nodes = smoothing_domains(MESH.tets, volume).split
    total, (_, again) = domain_volumes(nodes, volume), volume_means(nodes, volume)
    by_volume = total[:, None] * again.toarray()
    assert np.abs(by_volume - by_volume.T).max() < 1e-14 * np.abs(by_volume).max()
    means = tet_means(nodes, volume)
    shares = np.repeat(total, np.diff(means.offsets)) * means.weights
    assert np.add.reduceat(means.weights, means.offsets[:-1]) == pytest.approx(1.0)
    assert np.bincount(means.members, shares) == pytest.approx(volume)


def test_rows_in_use_do_not_grow_with_the_length_of_a_body():
    """Rows are reused, so that they stay in the cache."""

    def slots(length, lanes=8):
        mesh = gs.meshes.tet_box((0.1 * length, 0.2, 0.2), (length, 2, 2))
        return smoothing_order(smoothing_domains(mesh.tets, mesh.volumes), lanes, -(-len(mesh.tets) // lanes)).slots

    assert slots(120) == slots(60)
    assert max(slots(60)) * 8 < 0.5 * 60 * 20  # tetrahedra


def test_momenta_are_conserved_and_rotation_changes_nothing():
    mass = np.bincount(MESH.tets.ravel(), np.repeat(MESH.volumes / 4, 4))
    vertices = crumpled()
    velocity = np.random.default_rng(3).normal(size=vertices.shape)
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    own = accelerations(vertices=vertices, velocity=gs.per_element(velocity), **SMOOTH)
    turned = accelerations(vertices=vertices @ turn.T, velocity=gs.per_element(velocity @ turn.T), **SMOOTH)
    force = mass[:, None] * own
    assert np.abs(force.sum(0)).max() < 1e-12 * np.abs(force).sum()
    assert np.abs(np.cross(vertices, force).sum(0)).max() < 1e-12 * np.abs(force).sum()
    assert np.abs(turned - own @ turn.T).max() < 1e-10 * np.abs(own).max()


def test_gradients_agree_with_differences():
    rng, count = np.random.default_rng(5), len(MESH.tets)
    values = tensors(
        {
            "mu": 2e3 * rng.uniform(0.5, 2.0, count),
            "lam": 9e3 * rng.uniform(0.8, 1.2, count),
            "damping": 5.0 * rng.uniform(0.5, 2.0, count),
            "actuation": 0.2 * rng.normal(size=(3, count)),
            "density": 50.0 * rng.uniform(0.5, 2.0, count),
            "vertices": crumpled(),
        }
    )

    def build(p):
        material = gs.NeoHookean(*(gs.per_element(p[name]) for name in ("mu", "lam", "damping")))
        actuation = gs.Signal(gs.per_element(p["actuation"]))
        body = gs.Soft(
            "body", MESH, gs.per_element(p["density"]), material=material, actuation=actuation,
            vertices=p["vertices"], pinned=[0, 1, 2], **SMOOTH,
        )  # fmt: skip
        return gs.Scene([body])

    options = {"frames": 3, "fps": 100.0, "substeps": 24, "integrator": gs.Verlet()}
    assert_gradients(build, values, tolerance=1e-6, steps=(1e-4, 1e-5, 1e-6), **options)


def test_energy_stays_bounded_at_the_stable_step_which_is_longer_than_that_of_linear_tetrahedra():
    def scene(element):
        material = gs.NeoHookean.from_young(1e4, 0.45)
        body = gs.Soft("body", MESH, 100.0, material=material, vertices=crumpled(amount=2e-3), element=element)
        return gs.Scene([body], gravity=(0.0, 0.0, 0.0))

    steps = {type(e).__name__: gs.stable_dt(scene(e), gs.Verlet()) for e in (gs.LinearTet(), gs.SmoothedTet())}
    assert steps["SmoothedTet"] > 1.2 * steps["LinearTet"]
    motion = gs.simulate(
        scene(gs.SmoothedTet()), frames=2, fps=1.0 / (400 * steps["SmoothedTet"]), substeps=400, integrator=gs.Verlet()
    )
    assert float((motion.vertices[-1] - motion.vertices[0]).norm(dim=-1).max()) < 0.02


@pytest.mark.parametrize(("poisson", "error", "locked"), [(0.3, 0.015, 0.89), (0.49, 0.07, 0.80)])
def test_a_cantilever_bends_as_it_should(poisson, error, locked):
    """The simulator's forces balance a weight at the displacements of the linear theory, which do not lock."""
    mesh = gs.meshes.tet_box(locking.SIZE, (20, 4, 4))
    volume = np.bincount(mesh.tets.ravel(), np.repeat(mesh.volumes / 4, 4))
    reference = locking.reference_tip(poisson, ((10, 2, 2), (20, 4, 4)))
    for element, matrix_of in ((gs.SmoothedTet(), locking.smoothed_matrix), (gs.LinearTet(), locking.linear_matrix)):
        moved = locking.displacements(mesh.vertices, volume, matrix_of(mesh, *locking.lame(poisson)))
        scale = 3e-8 / np.abs(moved).max()
        material = gs.NeoHookean.from_young(1.0, poisson)
        found = accelerations(mesh, mesh.vertices + scale * moved, steps=1e3, material=material, element=element)
        free = mesh.vertices[:, 0] > mesh.vertices[:, 0].min() + 1e-9
        assert np.abs(found[free] - [0.0, scale, 0.0]).max() < 5e-3 * scale
        ratio = locking.tip(mesh.vertices, moved) / reference
        if isinstance(element, gs.SmoothedTet):
            assert ratio == pytest.approx(1.0, abs=error)
        else:
            assert ratio < locked


def test_files_keep_the_element(tmp_path):
    scene = gs.Scene([gs.Soft("body", MESH, 1.0, **SMOOTH)])
    scene.save(tmp_path / "body.yaml")
    assert gs.load_scene(tmp_path / "body.yaml")["body"].element == gs.SmoothedTet()


def test_other_elements_are_refused():
    with pytest.raises(WrongType, match=r"body\.element.*gs\.SmoothedTet"):
        gs.Soft("body", MESH, 1.0, element="smoothed")


def test_two_bodies_and_a_batch_equal_single_ones():
    alone = accelerations(vertices=crumpled(), **SMOOTH)
    other = gs.Soft("other", gs.meshes.tet_box(0.2, 1), 2.0, position=(3.0, 0.0, 0.0), **SMOOTH)
    body = gs.Soft(
        "body",
        MESH,
        torch.tensor([1.0, 2.0], dtype=F64),
        material=gs.NeoHookean(2e3, 5e3, 7.0),
        vertices=crumpled(),
        **SMOOTH,
    )
    scene = gs.Scene([other, body], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=2, fps=1e4, substeps=1, integrator=gs.SymplecticEuler())["body"]
    found = (motion.velocities[:, 1] - motion.velocities[:, 0]).numpy() * 1e4
    assert np.abs(found[0] - alone).max() < 1e-10 * np.abs(alone).max()
    assert np.abs(2.0 * found[1] - alone).max() < 1e-10 * np.abs(alone).max()


@pytest.mark.parametrize("dtype", [F64, torch.float32], ids=str)
def test_native_kernels_equal_portable_ones(dtype):
    rng, count = np.random.default_rng(6), len(MESH.tets)
    mu, lam, damping, actuation = (torch.tensor(rng.uniform(0.5, 2.0, (3, count)), dtype=dtype) for _ in range(4))
    material = gs.NeoHookean(*map(gs.per_element, (2e3 * mu, 9e3 * lam, 5.0 * damping)))
    body = gs.Soft(
        "body", MESH, 40.0, material=material, actuation=gs.per_element(0.1 * actuation), vertices=crumpled(), **SMOOTH
    )
    other = gs.Soft("other", gs.meshes.tet_box(0.2, 1), 60.0, position=(1.0, 0.0, 0.0), **SMOOTH)
    scene = gs.Scene([body, other])
    assert_native_equals_portable(scene, gs.Verlet(), dtype=dtype, steps=5, dt=2e-4)
