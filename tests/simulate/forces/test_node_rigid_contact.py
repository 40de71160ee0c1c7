"""Contact of nodes and faces with moving rigid bodies: gradients at large steps, native kernels, files and errors.

`gradsim check` has gradients, conservation and a cloth on a corner.
"""

import pytest
import torch
from tests.simulate.differences import assert_native_equals_portable, tensors

import gradsim as gs
from gradsim.check.pair_gradients import NODES, check_pair_gradients
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName

SHEET = gs.meshes.grid(0.4, 6)
BLOCK = gs.meshes.tet_box((0.2, 0.1, 0.2), (2, 1, 2))
TIME = {"frames": 6, "fps": 50.0, "substeps": 64}


def values_of(kind):
    given = {
        "ke": 200.0,
        "kd": 0.1,
        "kf": 1.0,
        "mu": 0.4,
        "delta": 0.004,
        "thickness": 0.004,
        "velocity": [0.1, 1.5, 0.05],
        "spin": [1.0, 0.5, -2.0],
        "mass": 0.4,
        "position": [0.0, 0.1, 0.0],
        "center": [0.01, 0.005, -0.01],
    }
    shapes = {
        "ball": {"radius": 0.1},
        "box": {"size": [0.2, 0.16, 0.18], "rounding": 0.03},
        "mesh": {"size": [0.2, 0.16, 0.18]},
        "capsule": {},
    }
    return tensors({**given, **shapes[kind]})


def hit(p, soft=False):
    """A ball or box flies into a sheet or a soft block, with no other forces."""
    if soft:
        body = gs.Soft("body", BLOCK, 60.0, material=gs.NeoHookean(4e3, 4e3, 3.0), position=(0.02, 0.27, 0.01))
    else:
        body = gs.Cloth("body", SHEET, 0.5, material=gs.Membrane(100.0, 100.0, 0.1), position=(0.0, 0.23, 0.0))
    common = {"mass": p["mass"], "position": p["position"], "velocity": p["velocity"], "center": p["center"]}
    common["angular_velocity"] = p["spin"]
    turned = {"rotation": (0.2, 0.1, 0.3, 1.0), **common}
    if "radius" in p:
        hard = gs.Ball("hard", radius=p["radius"], **common)
    elif "size" in p:
        mesh = gs.meshes.box(0.2) if "rounding" in p else gs.meshes.cylinder(0.1, 0.2)
        hard = gs.Rigid("hard", mesh, size=p["size"], **turned)
    else:
        hard = gs.Rigid("hard", gs.meshes.capsule(0.08, 0.1), **turned)
    names = ("ke", "kd", "kf", "mu", "delta", "thickness", "rounding")
    between = gs.NodeContact("between", body="body", rigid="hard", **{name: p[name] for name in names if name in p})
    return gs.Scene([body, hard], gravity=(0.0, 0.0, 0.0), forces=[between])


def test_gradients_hold_at_useful_steps():
    missed = [result for result in check_pair_gradients(tuple(NODES)) if not result.ok]
    assert not missed


@pytest.mark.parametrize(
    ("kind", "soft"),
    [("ball", False), ("box", False), ("box", True), ("capsule", True), ("mesh", False), ("mesh", True)],
)
def test_native_contact_equals_portable_contact(kind, soft):
    values = {name: torch.stack([v, v * 1.03]) for name, v in values_of(kind).items()}
    assert_native_equals_portable(hit(values, soft), gs.Midpoint(), steps=90, dt=4e-4)


def test_scene_files_and_errors(tmp_path):
    scene = hit(values_of("box"))
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert torch.equal(gs.simulate(loaded, **TIME).vertices, gs.simulate(scene, **TIME).vertices)
    bodies = [gs.Cloth("body", SHEET, 0.5), gs.Rigid("hard", gs.meshes.icosphere(0.1), mass=1.0)]
    with pytest.raises(InvalidInput, match="is no box: only the edges of boxes"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="body", rigid="hard", rounding=0.01)])
    with pytest.raises(OutOfRange, match="less than 0.3 of the shortest side of 'hard'"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="body", rigid="hard", thickness=0.1)])
    with pytest.raises(UnknownName, match="the bodies that it can act on are body"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="sheet", rigid="hard")])
    bodies[1] = gs.Rigid("hard", gs.meshes.box(0.1), mass=1.0)
    with pytest.raises(OutOfRange, match="less than half of the box's shortest edge"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="body", rigid="hard", rounding=0.06)])
