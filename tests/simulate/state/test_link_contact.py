"""Contact of links: with static shapes, rigid bodies, other articulated bodies and each other."""

import numpy as np
import pytest
import torch
from tests.simulate.state.test_articulated import run_shard

import gradsim as gs
from gradsim.check.gradient_problems.articulated import HOPPER
from gradsim.scene.errors import UnknownName
from gradsim.scene.integrators import Midpoint, SymplecticEuler

BOX = gs.meshes.box((0.2, 0.1, 0.16))


def free_box(name, mesh=BOX, mass=1.0, **joint):
    """Returns a body whose only link is a box on a free joint."""
    return gs.Articulated(name, {"box": gs.Link(gs.Free(**joint), mass=mass, mesh=mesh, collides=True)})


@pytest.mark.parametrize(("integrator", "worlds"), [(SymplecticEuler(), 1), (Midpoint(), 3)], ids=["one", "worlds"])
def test_native_and_portable_rollouts_agree(integrator, worlds):
    native, portable = (run_shard(HOPPER, torch.float64, n, integrator, worlds) for n in (True, False))
    for one, other in zip(native, portable, strict=True):
        scale = max(1.0, float(other.abs().max()))
        assert float((one - other).abs().max()) < 1e-11 * scale


@pytest.mark.parametrize("friction", [None, gs.Sticking()], ids=["regularized", "sticking"])
def test_a_free_link_moves_like_a_rigid_body(friction):
    """It lands flat, slides and hits a wall."""
    contact = gs.Contact(ke=5e3, kd=20.0, mu=0.4, friction=friction)
    start = {"velocity": (1.8, -0.5, 0.0)}
    link = gs.Link(gs.Free((0.0, 0.1, 0.0), **start), mass=1.2, mesh=BOX, collides=True, contact=contact)
    wall = {"wall": gs.StaticBox(size=(0.1, 2.0, 2.0), position=(0.35, 0.0, 0.0))}
    rigid = gs.Rigid("box", BOX, mass=1.2, position=(0.0, 0.1, 0.0), contact=contact, **start)
    bodies = gs.Articulated("arm", {"box": link}), rigid
    scenes = [gs.Scene([body], ground=gs.Ground(), shapes=wall) for body in bodies]
    moves = [gs.simulate(scene, frames=11, fps=30.0, substeps=100).vertices for scene in scenes]
    assert float(moves[1][..., 0].max()) > 0.3
    assert float((moves[0] - moves[1]).abs().max()) < 1e-5


def test_collisions_conserve_momentum():
    """A link hits a rigid box and another articulated body."""
    thrown = free_box("thrown", velocity=(2.0, 0.1, 0.0), angular_velocity=(0.0, 0.5, 1.0))
    crate = gs.Rigid("crate", gs.meshes.box(0.1), mass=0.5, position=(0.17, 0.06, 0.02))
    other = free_box("other", displacement=(0.24, -0.07, 0.0), mass=0.7)
    scene = gs.Scene([thrown, crate, other], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=7, fps=50.0, substeps=100)
    assert float(motion["crate"].velocity[-1].norm()) > 0.5
    assert float(motion["other"].link("box").velocity[-1].norm()) > 0.2
    momentum = motion["thrown"].link("box").velocity + 0.7 * motion["other"].link("box").velocity
    momentum = momentum + 0.5 * motion["crate"].velocity
    assert float((momentum - momentum[0]).abs().max()) < 1e-12


def test_links_of_a_body_touch_except_for_neighbours():
    """A folding ruler of three bars: the outer ones touch, those that a joint connects do not."""
    bar = gs.meshes.box((0.04, 0.3, 0.04))
    mesh = gs.TriMesh(bar.vertices - (0.0, 0.15, 0.0), bar.faces)
    given = {"mass": 0.2, "mesh": mesh, "collides": True}
    links = {
        "a": gs.Link(gs.Revolute(), **given),
        "b": gs.Link(gs.Revolute(angle=1.9), "a", (0.0, -0.3, 0.0), **given),
        "c": gs.Link(gs.Revolute(angle=1.9, rate=4.0), "b", (0.0, -0.3, 0.0), **given),
    }
    scenes = [
        gs.Scene([gs.Articulated("ruler", links)], gravity=(0.0, 0.0, 0.0), pairs=pairs) for pairs in (True, False)
    ]
    touching, passing = (gs.simulate(scene, frames=13, fps=30.0, substeps=64)["ruler"] for scene in scenes)
    torch.testing.assert_close(touching.angles[:2], passing.angles[:2], rtol=0, atol=1e-12)
    assert float(passing.angle("c")[-1]) > 3.0
    assert float(touching.angle("c").max()) < 2.5


def test_pairs_are_named_by_body_and_link():
    hand = free_box("arm", displacement=(0.0, 0.3, 0.0))
    table = gs.Rigid("table", gs.meshes.box((1.0, 0.1, 1.0)), mass=1.0, motion=gs.Motion(gs.Signal(np.zeros((2, 3)))))
    mu = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    scene = gs.Scene([hand, table], pairs={"arm/box-table": gs.Contact(mu=mu)})
    assert "pairs.arm/box-table.mu" in {path for path, *_ in scene.quantities()}
    assert float(scene.with_values({"pairs.arm/box-table.mu": 0.7}).pairs["arm/box-table"].mu) == 0.7
    with pytest.raises(UnknownName, match="arm/box"):
        gs.Scene([hand, table], pairs={"arm-table": None})
    fallen = gs.simulate(gs.Scene([hand, table], pairs={"arm/box-table": None}), frames=16, fps=30.0)
    assert float(fallen["arm"].link("box").position[-1, 1]) < -0.5


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"collides": True}, "mesh"),
        ({"contact": gs.Contact(), "mesh": BOX}, "collides=True"),
        ({"collides": 1, "mesh": BOX}, "True or False"),
        ({"collides": True, "mesh": BOX, "contact": {"wall": 3.0}}, "gs.Contact"),
    ],
)
def test_invalid_collisions_are_named(given, match):
    with pytest.raises(gs.InvalidInput, match=match):
        gs.Articulated("arm", {"hand": gs.Link(gs.Revolute(), mass=1.0, **given)})


def test_scene_files_keep_collisions(tmp_path):
    scene = HOPPER.build(HOPPER.values())
    scene.save(tmp_path / "hopper.yaml")
    loaded = gs.load_scene(tmp_path / "hopper.yaml")
    motions = [gs.simulate(s, frames=3, fps=50.0, substeps=40)["hopper"].coordinates for s in (scene, loaded)]
    torch.testing.assert_close(*motions, rtol=0, atol=1e-12)
