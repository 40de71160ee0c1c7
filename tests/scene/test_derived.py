"""Derived quantities as unknowns: Young's modulus, Poisson's ratio and total mass; and tied values."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.simulate.compile.compiled_scene import compile_scene

F64 = torch.float64
BAR, SHEET = gs.meshes.tet_box((0.4, 0.1, 0.1), (4, 1, 1)), gs.meshes.grid((0.4, 0.4), (3, 3))


def bar(material, **options):
    given = {"density": 500.0} | options
    return gs.Soft("bar", BAR, material=material, pinned=gs.Region(high=(-0.19, None, None)), **given)


def flag(material, **options):
    return gs.Cloth("flag", SHEET, material=material, **({"density": 0.2} | options))


def number(value):
    return torch.tensor(value, dtype=F64)


@pytest.mark.parametrize(
    ("body", "material", "poisson"),
    [(bar, gs.NeoHookean, 0.4), (flag, gs.Membrane, 0.7)],
    ids=["solid", "sheet"],
)
def test_unknown_elastic_constants_give_the_material_of_known_ones(body, material, poisson):
    young = gs.unknown(2e4, low=1e3, high=1e6)
    scene = gs.Scene([body(material.from_young(young, gs.unknown(0.2, low=0.0, high=0.45), damping=3.0))])
    name = scene.bodies[0].name
    assert list(scene.unknowns) == [f"{name}.material.young", f"{name}.material.poisson"]
    values = {f"{name}.material.young": number(5e4), f"{name}.material.poisson": number(poisson)}
    filled = scene.with_values(values)
    known = gs.Scene([body(material.from_young(5e4, poisson, damping=3.0))])
    found, expected = (gs.simulate(s, frames=4, fps=50, substeps=400).vertices for s in (filled, known))
    assert (found - expected).abs().max() < 1e-14
    with pytest.raises(InvalidInput, match=r"material\.young"):
        gs.simulate(scene, frames=2)


def test_gradient_with_respect_to_elastic_constants():
    scene = gs.Scene([bar(gs.NeoHookean.from_young(gs.unknown(2e4), gs.unknown(0.3), damping=3.0))])

    def sag(young, poisson):
        filled = scene.with_values({"bar.material.young": young, "bar.material.poisson": poisson})
        return gs.simulate(filled, frames=6, fps=50, substeps=100).vertices[..., -1, :, 1].sum(-1)

    young, poisson = number(2e4).requires_grad_(), number(0.3).requires_grad_()
    sag(young, poisson).backward()
    with torch.no_grad():
        for value, gradient, step in ((0, young.grad, 2.0), (1, poisson.grad, 1e-5)):
            moved = [
                torch.stack([at + (k == value) * s * step for s in (1, -1)]) for k, at in enumerate((young, poisson))
            ]
            ahead, behind = sag(*moved)
            assert float((ahead - behind) / (2 * step)) == pytest.approx(float(gradient), rel=1e-6)


def test_limits_of_elastic_constants():
    with pytest.raises(OutOfRange, match=r"NeoHookean\.poisson"):
        gs.NeoHookean.from_young(gs.unknown(1e4), 0.5)
    with pytest.raises(OutOfRange, match="poisson's high"):
        gs.NeoHookean.from_young(1e4, gs.unknown(0.3, low=0.1, high=0.6))
    with pytest.raises(OutOfRange, match="young's guess"):
        gs.Membrane.from_young(gs.unknown(-1.0), 0.3)


def test_a_scene_file_keeps_unknown_elastic_constants(tmp_path):
    unknown = gs.unknown(2e4, low=1e3, high=1e6)
    bodies = [
        bar(gs.NeoHookean.from_young(unknown, 0.3)),
        flag(gs.Membrane.from_young(unknown, 0.25, 1e-3, damping=0.1)),
    ]
    gs.Scene(bodies).save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert list(loaded.unknowns) == ["bar.material.young"]  # one unknown in two places
    filled = loaded.with_values({"bar.material.young": number(5e4)})
    assert float(filled["flag"].material.mu) == pytest.approx(float(gs.Membrane.from_young(5e4, 0.25, 1e-3).mu))
    assert float(filled["flag"].material.damping) == 0.1


@pytest.mark.parametrize(("body", "measure"), [(bar, 0.4 * 0.1 * 0.1), (flag, 0.4 * 0.4)], ids=["solid", "sheet"])
def test_total_mass_is_that_of_a_uniform_density(body, measure):
    material = gs.NeoHookean() if body is bar else gs.Membrane()
    totals = torch.tensor([0.5, 2.0], dtype=F64)
    for total in (2.0, totals):
        found = compile_scene(gs.Scene([body(material, density=None, total_mass=total)])).parameters["node"]
        expected = compile_scene(gs.Scene([body(material, density=total / measure)])).parameters["node"]
        assert torch.allclose(found, expected, rtol=1e-13, atol=0.0)


def test_total_mass_may_be_unknown_and_is_an_alternative():
    scene = gs.Scene([flag(gs.Membrane(), density=None, total_mass=gs.unknown(0.1, low=0.01, high=1.0))])
    assert list(scene.unknowns) == ["flag.total_mass"]
    with pytest.raises(InvalidInput, match="give exactly one of density, mass and total_mass"):
        flag(gs.Membrane(), total_mass=0.1)
    with pytest.raises(InvalidInput, match="none: give exactly one"):
        flag(gs.Membrane(), density=None)


def test_tied_masses_are_one_unknown():
    total = gs.unknown(0.5, low=0.1, high=2.0)
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.1, 1), mass=total)
    scene = gs.Scene([bar(gs.NeoHookean(), density=None, total_mass=total), ball])
    assert list(scene.unknowns) == ["bar.total_mass"]
    filled = scene.with_values({"bar.total_mass": number(0.8)})
    assert float(filled["ball"].mass) == float(filled["bar"].total_mass) == 0.8
    assert np.isclose(float(filled["ball"].mass_properties(F64, torch.device("cpu")).mass), 0.8)
