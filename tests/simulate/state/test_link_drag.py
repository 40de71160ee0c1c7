"""Air drag of links."""

import numpy as np
import pytest

import gradsim as gs

BOX = gs.meshes.box((0.2, 0.1, 0.16))
CENTER, INERTIA = (0.03, -0.05, 0.02), np.diag([0.004, 0.006, 0.005]) + 5e-4
DRAG = gs.Drag(linear=0.3, quadratic=0.4)


def test_a_free_link_falls_through_air_like_a_rigid_body():
    """Its centre of mass is not at its origin, so that the drag has a torque there."""
    body = {"mass": 1.2, "center": CENTER, "inertia": INERTIA, "mesh": BOX, "drag": DRAG}
    spin = (1.0, 3.0, -2.0)
    rigid = gs.Rigid("box", velocity=(2.0, 1.0, 0.0), angular_velocity=spin, **body)
    velocity = np.array([2.0, 1.0, 0.0]) - np.cross(spin, CENTER)  # of the origin
    link = gs.Link(gs.Free(velocity=velocity, angular_velocity=spin), **body)
    scenes = [gs.Scene([own]) for own in (rigid, gs.Articulated("arm", {"box": link}))]
    options = {"frames": 11, "fps": 10.0, "substeps": 100, "integrator": gs.RungeKutta4()}
    falls = [gs.simulate(scene, **options).vertices for scene in scenes]
    assert float((falls[0][-1] - falls[0][0]).abs().max()) > 1.0
    assert float((falls[0] - falls[1]).abs().max()) < 1e-8


def test_links_in_still_air_do_not_touch():
    bars = {name: gs.Link(gs.Revolute(angle=1.0), mass=1.0, center=CENTER, mesh=BOX, drag=DRAG) for name in "ab"}
    scene = gs.Scene([gs.Articulated("bars", bars)], ground=gs.Ground())
    assert not scene.has_pairs
    free = {name: gs.Link(gs.Revolute(angle=1.0), mass=1.0, center=CENTER, mesh=BOX) for name in "ab"}
    slow, fast = (gs.simulate(gs.Scene([gs.Articulated("bars", own)], ground=gs.Ground()), frames=31)["bars"]
                  for own in (bars, free))  # fmt: skip
    assert float(slow.angles[-1].abs().max()) < float(fast.angles.abs().max())
    assert float((slow.angles[:, 0] - slow.angles[:, 1]).abs().max()) == 0.0


def test_scene_files_keep_the_drag_of_links(tmp_path):
    link = gs.Link(gs.Revolute(), mass=1.0, center=CENTER, inertia=INERTIA, drag=gs.Drag(0.1, gs.unknown(0.2, low=0.0)))
    gs.Scene([gs.Articulated("arm", {"bar": link})]).save(tmp_path / "arm.yaml")
    loaded = gs.load_scene(tmp_path / "arm.yaml")
    assert list(loaded.unknowns) == ["arm.links.bar.drag.quadratic"]
    assert float(loaded["arm"].links["bar"].drag.linear) == 0.1


def test_a_drag_of_another_type_is_refused_by_name():
    with pytest.raises(gs.InvalidInput, match=r"arm\.links\.bar\.drag"):
        gs.Articulated("arm", {"bar": gs.Link(gs.Revolute(), mass=1.0, drag=0.3)})
