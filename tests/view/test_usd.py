"""Exported OpenUSD holds the scene and its motion: read back, it has the positions of the trajectory at the frames."""

import sys

import numpy as np
import pytest
from tests.view.test_glb import motion as motion
from tests.view.test_surfaces import scene_of_kinds

import gradsim as gs
from gradsim.simulate.simulate import initial_trajectory
from gradsim.view.glb import linear_light
from gradsim.view.surfaces import moving_surfaces

pxr = pytest.importorskip("pxr")


def opened(file):
    from pxr import Usd

    return Usd.Stage.Open(str(file))


def world_points(stage, name, code):
    """Points of a mesh in the world at a time code, [R, 3]."""
    from pxr import UsdGeom

    mesh = UsdGeom.Mesh(stage.GetPrimAtPath(f"/scene/{name}"))
    matrix = np.array(mesh.ComputeLocalToWorldTransform(code))  # of rows
    points = np.array(mesh.GetPointsAttr().Get(code), dtype=np.float64)
    return points @ matrix[:3, :3] + matrix[3, :3]


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usdz"])
def test_motion_is_that_of_the_trajectory(motion, tmp_path, suffix):
    file = tmp_path / f"motion{suffix}"
    gs.save_usd(file, *motion)
    stage = opened(file)
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, pytest.approx(5.0))
    assert stage.GetTimeCodesPerSecond() == pytest.approx(20.0)
    for surface in moving_surfaces(*motion):
        for frame in range(6):
            expected = surface.frame(frame)[surface.vertices]
            assert np.allclose(world_points(stage, surface.name, frame), expected, atol=1e-6)
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_looks_and_units(tmp_path):
    from pxr import UsdGeom, UsdShade

    scene = scene_of_kinds()
    gs.save_usd(tmp_path / "kinds.usdz", scene, initial_trajectory(scene))
    stage = opened(tmp_path / "kinds.usdz")
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    names = [prim.GetName() for prim in stage.GetPrimAtPath("/scene").GetChildren()]
    assert names == ["ground", "post", "box", "ball", "cloth"]
    ball = UsdGeom.Mesh(stage.GetPrimAtPath("/scene/ball")).GetDisplayColorPrimvar()
    assert np.allclose(ball.Get(), linear_light(np.array([[0.2, 0.4, 0.9]])), atol=1e-6)
    assert ball.GetInterpolation() == "constant"
    cloth = UsdGeom.Mesh(stage.GetPrimAtPath("/scene/cloth")).GetDisplayColorPrimvar()
    assert cloth.GetInterpolation() == "vertex"
    for name in ("ground", "box"):
        material = UsdShade.MaterialBindingAPI(stage.GetPrimAtPath(f"/scene/{name}")).ComputeBoundMaterial()[0]
        image = UsdShade.Shader(material.GetPrim().GetChild("image"))
        assert image.GetInput("file").Get().resolvedPath.endswith(f"{name}.png]")


def test_text_files_have_mean_colors_in_place_of_textures(tmp_path):
    from pxr import UsdGeom

    scene = scene_of_kinds()
    gs.save_usd(tmp_path / "kinds.usda", scene, initial_trajectory(scene))
    assert (tmp_path / "kinds.usda").read_text().startswith("#usda 1.0")
    stage = opened(tmp_path / "kinds.usda")
    box = UsdGeom.Mesh(stage.GetPrimAtPath("/scene/box"))
    mean = np.random.default_rng(0).random((4, 6, 3)).mean((0, 1))
    assert np.allclose(box.GetDisplayColorPrimvar().Get()[0], linear_light(mean), atol=1e-3)


def test_bad_files_and_a_missing_package_are_refused(motion, tmp_path, monkeypatch):
    with pytest.raises(gs.InvalidInput, match=r"must end in \.usda"):
        gs.save_usd(tmp_path / "motion.glb", *motion)
    hidden = gs.Scene([gs.Rigid("box", gs.meshes.box(0.4), mass=1.0, look=None)])
    with pytest.raises(gs.InvalidInput, match="no visible surface"):
        gs.save_usd(tmp_path / "motion.usda", hidden, initial_trajectory(hidden))
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(gs.MissingExtra, match="usd"):
        gs.save_usd(tmp_path / "motion.usda", *motion)
