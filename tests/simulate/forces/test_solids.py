"""Further materials of solids and fibres: energies, moduli at small strain, invariants, gradients, scene files."""

import numpy as np
import pytest
import torch
from tests.simulate.differences import assert_gradients, assert_native_equals_portable, tensors

import gradsim as gs
from gradsim.scene.errors import InvalidInput, WrongShape, WrongType

MESH = gs.meshes.tet_box((0.4, 0.3, 0.2), (2, 2, 1))
YOUNG, POISSON = 3e3, 0.35
SHEAR, BULK = YOUNG / (2 * (1 + POISSON)), YOUNG / (3 * (1 - 2 * POISSON))
MATERIALS = {
    "stvk": gs.StVenantKirchhoff.from_young(YOUNG, POISSON),
    "log": gs.StandardNeoHookean.from_young(YOUNG, POISSON),
    "mooney": gs.MooneyRivlin(0.3 * SHEAR, 0.2 * SHEAR, BULK),
}
FIBRES = gs.Fibres(800.0, direction=(1.0, 2.0, 0.5))


def deformation_gradients(x):
    """Deformation gradients of the elements, [T, 3, 3]."""
    tets, corners = torch.tensor(MESH.tets).long(), torch.tensor(MESH.vertices)
    edges, rest = ((p[tets[:, 1:]] - p[tets[:, :1]]).mT for p in (x, corners))
    return edges @ torch.linalg.inv(rest)


def energy(name, x):
    """Elastic energy of the body [J] from the formulas of the docstrings."""
    F = deformation_gradients(x)
    C, J = F.mT @ F, torch.linalg.det(F)
    first = C.diagonal(dim1=-2, dim2=-1).sum(-1)
    lam = BULK - 2 / 3 * SHEAR
    if name == "stvk":
        E = (C - torch.eye(3, dtype=x.dtype)) / 2
        density = SHEAR * (E * E).sum((-2, -1)) + lam / 2 * E.diagonal(dim1=-2, dim2=-1).sum(-1) ** 2
    elif name == "log":
        density = SHEAR / 2 * (first - 3) - SHEAR * J.log() + lam / 2 * J.log() ** 2
    elif name == "mooney":
        c10, c01 = 0.3 * SHEAR, 0.2 * SHEAR
        k = BULK + (2 * c10 - 4 * c01) / 3
        second = (first**2 - (C @ C).diagonal(dim1=-2, dim2=-1).sum(-1)) / 2
        density = c10 * (first - 3) + c01 * (second - 3) - (2 * c10 + 4 * c01) * (J - 1) + k / 2 * (J - 1) ** 2
    else:
        along = torch.tensor([1.0, 2.0, 0.5], dtype=x.dtype) / np.sqrt(5.25)
        density = 800.0 / 2 * ((F @ along).norm(dim=-1) - 1) ** 2
    return (density * torch.tensor(MESH.volumes)).sum()


def forces(vertices, velocity=(0.0, 0.0, 0.0), **options):
    """Forces on the nodes [N], [V, 3]."""
    body = gs.Soft("body", MESH, 1.0, vertices=vertices, velocity=velocity, **options)
    motion = gs.simulate(
        gs.Scene([body], gravity=(0.0, 0.0, 0.0)), frames=2, fps=1e4, substeps=1, integrator=gs.SymplecticEuler()
    )
    mass = np.bincount(MESH.tets.ravel(), np.repeat(MESH.volumes / 4, 4))
    return ((motion.velocities[1] - motion.velocities[0]) * 1e4).numpy() * mass[:, None]


def crumpled(amount=0.02):
    return MESH.vertices + np.random.default_rng(0).normal(size=MESH.vertices.shape) * amount


@pytest.mark.parametrize("name", [*MATERIALS, "fibres"])
def test_force_is_minus_the_gradient_of_the_energy(name):
    x = torch.tensor(crumpled(), requires_grad=True)
    (slope,) = torch.autograd.grad(energy(name, x), x)
    if name == "fibres":
        soft = gs.NeoHookean(1e3, 1e3)
        found = forces(crumpled(), material=soft, fibres=FIBRES) - forces(crumpled(), material=soft)
    else:
        found = forces(crumpled(), material=MATERIALS[name])
    assert np.abs(found + slope.numpy()).max() < 1e-9 * np.abs(slope.numpy()).max()


@pytest.mark.parametrize("name", MATERIALS)
def test_moduli_at_small_strain(name):
    """All materials agree with the stable neo-Hookean one of the same Young's modulus and Poisson's ratio."""
    strain = 1e-6 * np.random.default_rng(1).normal(size=(3, 3))
    vertices = MESH.vertices @ (np.eye(3) + strain).T
    reference = forces(vertices, material=gs.NeoHookean.from_young(YOUNG, POISSON))
    assert np.abs(forces(vertices, material=MATERIALS[name]) - reference).max() < 2e-5 * np.abs(reference).max()


@pytest.mark.parametrize("name", [*MATERIALS, "fibres"])
def test_a_rotated_rest_body_is_free_of_stress_and_momenta_are_conserved(name):
    options = {"fibres": FIBRES} if name == "fibres" else {"material": MATERIALS[name]}
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    scale = np.abs(forces(crumpled(), **options)).max()
    assert np.abs(forces(MESH.vertices @ turn.T, **options)).max() < 1e-9 * scale
    found = forces(crumpled(), **options)
    assert np.abs(found.sum(0)).max() < 1e-10 * np.abs(found).sum()
    assert np.abs(np.cross(crumpled(), found).sum(0)).max() < 1e-10 * np.abs(found).sum()


def test_inverted_elements_of_the_logarithmic_material_recover():
    """A body that is turned inside out returns to its volume; the force is continuous where the parabola begins."""
    flat = MESH.vertices * (1.0, -0.5, 1.0)
    material = gs.StandardNeoHookean.from_young(YOUNG, POISSON, damping=20.0)
    body = gs.Soft("body", MESH, 50.0, vertices=flat + 1e-3 * crumpled(0.1), material=material)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    last = gs.simulate(scene, frames=20, fps=20.0, substeps=400)["body"].vertices[-1]
    assert torch.isfinite(last).all()
    volumes = torch.linalg.det(deformation_gradients(last))
    assert float(volumes.abs().mean()) == pytest.approx(1.0, abs=0.2)
    below, above = (forces(MESH.vertices * (1.0, j, 1.0), material=material) for j in (0.1 - 1e-9, 0.1 + 1e-9))
    assert np.abs(above - below).max() < 1e-6 * np.abs(above).max()


def build(material):
    """Returns the function from values to a scene with a crumpled body of a material, with fibres."""

    def scene(p):
        fields = {n: gs.per_element(p[n]) for n in p if n not in ("vertices", "velocity", "fibres", "density")}
        body = gs.Soft(
            "body",
            MESH,
            density=p["density"],
            material=material(**fields),
            vertices=p["vertices"],
            velocity=gs.per_element(p["velocity"]),
            fibres=gs.Fibres(gs.per_element(p["fibres"]), direction=FIBRES.direction),
            pinned=[0],
        )
        return gs.Scene([body])

    return scene


def problem_values(material):
    rng, count = np.random.default_rng(5), len(MESH.tets)
    own = {"mu": 2e3, "lam": 4e3} if material is not gs.MooneyRivlin else {"c10": 6e2, "c01": 3e2, "bulk": 5e3}
    own |= {"damping": 3.0, "fibres": 900.0}
    fields = {name: value * rng.uniform(0.7, 1.4, count) for name, value in own.items()}
    nodes = MESH.vertices.shape
    return tensors(fields | {"vertices": crumpled(), "velocity": rng.normal(size=nodes), "density": np.array(80.0)})


@pytest.mark.parametrize("material", [gs.StVenantKirchhoff, gs.StandardNeoHookean, gs.MooneyRivlin])
def test_gradients_agree_with_differences(material):
    assert_gradients(build(material), problem_values(material), frames=3, fps=60.0, substeps=32)


@pytest.mark.parametrize(
    ("material", "dtype"),
    [
        (gs.StVenantKirchhoff, torch.float64),
        (gs.StandardNeoHookean, torch.float64),
        (gs.MooneyRivlin, torch.float64),
        (gs.StandardNeoHookean, torch.float32),
    ],
)
def test_native_kernels_equal_portable_ones(material, dtype):
    values = {name: torch.stack([v, 1.01 * v]).to(dtype) for name, v in problem_values(material).items()}
    assert_native_equals_portable(build(material)(values), gs.SymplecticEuler(), dtype)


@pytest.mark.filterwarnings("ignore::gradsim.StabilityWarning")
@pytest.mark.parametrize("name", MATERIALS)
def test_the_stable_step_is_stable_and_not_far_from_the_limit(name):
    body = gs.Soft("body", MESH, 50.0, vertices=crumpled(1e-3), material=MATERIALS[name], fibres=FIBRES)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    limit = gs.stable_dt(scene, integrator=gs.SymplecticEuler())

    def largest(dt):
        motion = gs.simulate(scene, frames=2, fps=1 / (2000 * dt), substeps=2000, integrator=gs.SymplecticEuler())
        return float((motion["body"].vertices[-1] - torch.tensor(MESH.vertices)).abs().max())

    assert largest(0.9 * limit) < 0.1
    with pytest.raises(gs.Diverged):
        largest(4.0 * limit)


def test_fibres_stiffen_a_bar_along_their_direction():
    stretched = MESH.vertices * (1.01, 1.0, 1.0)
    plain, along, across = (
        np.abs(forces(stretched, material=gs.NeoHookean.from_young(YOUNG, 0.0), fibres=fibres)).max()
        for fibres in (None, gs.Fibres(YOUNG), gs.Fibres(YOUNG, direction=(0.0, 1.0, 0.0)))
    )
    assert along == pytest.approx(2.0 * plain, rel=0.03)
    assert across == pytest.approx(plain, rel=1e-9)


def test_scene_files_keep_materials(tmp_path):
    for name, material in MATERIALS.items():
        scene = gs.Scene([gs.Soft("body", MESH, 1.0, material=material, fibres=FIBRES)])
        file = tmp_path / f"{name}.yaml"
        scene.save(file)
        loaded = gs.load_scene(file)["body"]
        assert type(loaded.material) is type(material)
        assert loaded.fibres.stiffness == 800.0
        np.testing.assert_allclose(loaded.fibres.direction, FIBRES.direction)


def test_errors():
    with pytest.raises(InvalidInput, match="make mu and lam unknown"):
        gs.StVenantKirchhoff.from_young(gs.unknown(1e4), 0.3)
    with pytest.raises(InvalidInput, match=r"body\.actuation = given: is for gs\.NeoHookean"):
        gs.Soft("body", MESH, 1.0, material=MATERIALS["log"], actuation=0.1)
    with pytest.raises(InvalidInput, match=r"gs\.MooneyRivlin needs gs\.LinearTet"):
        gs.Soft("body", MESH, 1.0, material=MATERIALS["mooney"], element=gs.SmoothedTet())
    with pytest.raises(WrongType, match="must be a gs.NeoHookean"):
        gs.Soft("body", MESH, 1.0, material=gs.Membrane())
    with pytest.raises(WrongShape, match=r"must be \[3\] or \[20, 3\]"):
        gs.Soft("body", MESH, 1.0, fibres=gs.Fibres(1.0, direction=np.ones((5, 3))))
    with pytest.raises(InvalidInput, match="not zero"):
        gs.Fibres(1.0, direction=(0.0, 0.0, 0.0))
