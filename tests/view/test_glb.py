"""Exported glTF holds the scene and its motion: read back, it has the positions of the trajectory at the frames."""

import io
import json
import struct

import numpy as np
import pytest
import torch
import trimesh
from tests.view.test_surfaces import scene_of_kinds

import gradsim as gs
from gradsim.scene.rotation import axes_of, rotate
from gradsim.simulate.simulate import initial_trajectory
from gradsim.view.glb import glb_bytes, quaternions
from gradsim.view.surfaces import moving_surfaces

SIZES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


def parsed(content):
    """The document of a file, and a function from the number of an accessor to its array."""
    magic, version, length = struct.unpack_from("<4sII", content)
    assert (magic, version, length) == (b"glTF", 2, len(content))
    text = struct.unpack_from("<I", content, 12)[0]
    document, chunk = json.loads(content[20 : 20 + text]), content[28 + text :]

    def array(number):
        accessor = document["accessors"][number]
        view = document["bufferViews"][accessor["bufferView"]]
        width, kind = SIZES[accessor["type"]], {5126: np.float32, 5125: np.uint32}[accessor["componentType"]]
        found = np.frombuffer(chunk, kind, accessor["count"] * width, view["byteOffset"])
        return found.reshape(-1, width) if width > 1 else found

    return document, array


@pytest.fixture(scope="module")
def motion():
    box = gs.Rigid("box", gs.meshes.box(0.4), mass=1.0, angular_velocity=(1.0, 9.0, 0.0), velocity=(1.0, 2.0, 0.0))
    sheet = gs.Cloth("sheet", gs.meshes.grid(0.5, 2), mass=0.1, position=(1.0, 0.0, 0.0), velocity=(0.0, 1.0, 0.5))
    scene = gs.Scene([box, sheet])
    return scene, gs.simulate(scene, frames=6, fps=20, substeps=160)


def test_motion_is_that_of_the_trajectory(motion, tmp_path):
    gs.save_glb(tmp_path / "motion.glb", *motion)
    document, array = parsed((tmp_path / "motion.glb").read_bytes())
    animation, names = document["animations"][0], [node["name"] for node in document["nodes"]]
    channels = {
        (names[channel["target"]["node"]], channel["target"]["path"]): animation["samplers"][channel["sampler"]]
        for channel in animation["channels"]
    }
    assert np.allclose(array(channels["box", "translation"]["input"]), motion[1].time)
    positions = {mesh["name"]: array(mesh["primitives"][0]["attributes"]["POSITION"]) for mesh in document["meshes"]}
    turned = rotate(
        torch.tensor(array(channels["box", "rotation"]["output"]))[:, None], torch.tensor(positions["box"])[None]
    )
    moved = turned + torch.tensor(array(channels["box", "translation"]["output"]))[:, None]
    surfaces = {surface.name: surface for surface in moving_surfaces(*motion)}
    for frame in range(6):
        expected = surfaces["box"].frame(frame)[surfaces["box"].vertices]
        assert np.allclose(moved[frame], expected, atol=1e-6)
    targets = document["meshes"][1]["primitives"][0]["targets"]
    weights = array(channels["sheet", "weights"]["output"]).reshape(6, 5)
    for frame in range(6):
        added = sum(w * array(target["POSITION"]) for w, target in zip(weights[frame], targets, strict=True))
        expected = surfaces["sheet"].frame(frame)[surfaces["sheet"].vertices]
        assert np.allclose(positions["sheet"] + added, expected, atol=1e-6)


def test_other_programs_read_it():
    scene = scene_of_kinds()
    surfaces = moving_surfaces(scene, initial_trajectory(scene))
    loaded = trimesh.load(io.BytesIO(glb_bytes(surfaces, np.zeros(1))), file_type="glb")
    assert set(loaded.geometry) == {"ground", "post", "box", "ball", "cloth"}
    box = next(surface for surface in surfaces if surface.name == "box")
    corners = box.frame(0)
    placed = trimesh.transform_points(loaded.geometry["box"].vertices, loaded.graph["box"][0])
    assert np.allclose([placed.min(0), placed.max(0)], [corners.min(0), corners.max(0)], atol=1e-6)
    texture = loaded.geometry["box"].visual.material.baseColorTexture
    assert texture.size == (6, 4)


def test_quaternions_turn_as_their_matrices():
    q = torch.nn.functional.normalize(torch.randn(50, 4, dtype=torch.float64), dim=-1)
    q = torch.cat([q, torch.eye(4, dtype=torch.float64)])
    found = quaternions(axes_of(q).numpy())
    assert np.allclose(np.abs((found * q.numpy()).sum(1)), 1.0, atol=1e-12)
    assert ((found[1:] * found[:-1]).sum(1) >= 0).all()


def test_bad_files_are_refused(motion, tmp_path):
    with pytest.raises(gs.InvalidInput, match="must end in .glb"):
        gs.save_glb(tmp_path / "motion.obj", *motion)
    hidden = gs.Scene([gs.Rigid("box", gs.meshes.box(0.4), mass=1.0, look=None)])
    with pytest.raises(gs.InvalidInput, match="no visible surface"):
        gs.save_glb(tmp_path / "motion.glb", hidden, initial_trajectory(hidden))
