"""Mesh files that are no meshes, or that name other files, are refused by name."""

import pytest

import gradsim as gs
from gradsim.scene.errors import MeshFileError

BYTES = bytes(range(128, 256)) * 8
HEADER_OF_MANY = b"x" * 80 + (2**31 - 1).to_bytes(4, "little") + BYTES


@pytest.mark.parametrize("content", [b"", BYTES, HEADER_OF_MANY, b"solid x\nfacet normal a b c\n"])
@pytest.mark.parametrize("suffix", ["stl", "obj", "ply", "off", "glb", "gltf", "msh", "vtk", "vtu", "mesh", "inp"])
def test_garbage(tmp_path, suffix, content):
    file = tmp_path / f"mesh.{suffix}"
    file.write_bytes(content)
    with pytest.raises(MeshFileError, match=f"mesh.{suffix} = ") as caught:
        gs.load_mesh(file)
    assert "pip install" not in str(caught.value)


def test_arrays_outside_the_folder(tmp_path):
    (tmp_path / "inside").mkdir()
    file = tmp_path / "inside" / "mesh.xdmf"
    file.write_text(
        '<Xdmf Version="3.0"><Domain><Grid><Geometry><DataItem Dimensions="4 3" Format="HDF">../secret.h5:/x</DataItem>'
        "</Geometry></Grid></Domain></Xdmf>"
    )
    with pytest.raises(MeshFileError, match=r"arrays in \.\./secret\.h5"):
        gs.load_mesh(file)


def test_gltf_buffers_outside_the_folder(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    file = tmp_path / "inside" / "mesh.gltf"
    file.write_text(
        '{"asset": {"version": "2.0"}, "buffers": [{"uri": "../secret.bin", "byteLength": 64}], "bufferViews": [],'
        ' "accessors": [], "meshes": [], "nodes": [], "scenes": [{"nodes": []}], "scene": 0}'
    )
    with pytest.raises(MeshFileError, match="mesh.gltf"):
        gs.load_mesh(file)
