"""Rasterizers refuse tensors that native code cannot read."""

import pytest
import torch
from tests.render import scenes

import gradsim as gs
from gradsim.render.raster import rasterize
from gradsim.render.triangles import Connectivity
from gradsim.scene.errors import MixedDtypes, UnsupportedDevice, WrongType
from gradsim.scene.trajectory import BodyMotion

SIZE = (8, 8)
SHEET = gs.TriMesh([[0, 0, 0], [1, 0, 0], [1, 0, -1]], [[0, 1, 2]])
RASTERIZERS = pytest.mark.parametrize(
    "rasterizer", [gs.Exact(), gs.SoftRas(), gs.DIBR()], ids=lambda r: type(r).__name__
)


@RASTERIZERS
def test_render_refuses_a_trajectory_off_the_cpu(rasterizer):
    scene = gs.Scene([gs.Cloth("sheet", SHEET, density=1.0)], camera=gs.Camera(eye=(0, 1, 5), target=(0, 0, 0)))
    points = torch.zeros(1, 3, 3, dtype=torch.float64, device="meta")
    time = torch.zeros(1, dtype=torch.float64, device="meta")
    trajectory = gs.Trajectory(time, {"sheet": BodyMotion(points, points)}, {})
    with pytest.raises(
        UnsupportedDevice, match=r"trajectory = meta: rasterizers run on the CPU only: .*tensor\.cpu\(\)"
    ):
        gs.render(scene, trajectory, SIZE, rasterizer)


@RASTERIZERS
@pytest.mark.parametrize("name", scenes.DIFFERENTIABLE)
def test_rasterize_refuses_tensors_off_the_cpu(name, rasterizer):
    triangles = scenes.two_bodies(SIZE)
    moved = scenes.changed(triangles, **{name: getattr(triangles, name).to("meta")})
    with pytest.raises(UnsupportedDevice, match=rf"triangles\.{name} = meta: rasterizers run on the CPU only"):
        rasterize(rasterizer, moved, SIZE, alpha=True)


def test_index_arrays_are_refused_off_the_cpu_and_of_another_type():
    mesh = scenes.two_bodies(SIZE).connectivity
    arrays = [mesh.faces, mesh.corners, mesh.edges, mesh.two_sided, mesh.face_textures, mesh.textures]
    for place in range(len(arrays)):
        with pytest.raises(UnsupportedDevice, match=r"connectivity\.\w+ = meta"):
            Connectivity(*(array.to("meta") if k == place else array for k, array in enumerate(arrays)))
        with pytest.raises(WrongType, match=r"connectivity\.\w+ = torch.int64"):
            Connectivity(*(array.long() if k == place else array for k, array in enumerate(arrays)))
    with pytest.raises(WrongType, match="contiguous"):
        Connectivity(mesh.faces.T.contiguous().T, *arrays[1:])


def test_types_must_agree():
    triangles = scenes.two_bodies(SIZE)
    mixed = scenes.changed(triangles, texels=triangles.texels.float())
    with pytest.raises(MixedDtypes, match=r"triangles\.texels = torch\.float32: the vertices are torch\.float64"):
        rasterize(gs.Exact(), mixed, SIZE, alpha=False)
