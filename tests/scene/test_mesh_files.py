"""Mesh files: round trips, repair of imported meshes, errors; and tetrahedralization."""

from __future__ import annotations

import sys
from typing import Any

import meshio
import numpy as np
import pytest
import trimesh
from tests.scene.mesh_helpers import TET, enclosed_volume, tri_mesh

from gradsim.scene import errors, meshes
from gradsim.scene.mesh_files import SURFACE_FORMATS, VOLUME_FORMATS, load_mesh, save_mesh, tetrahedralize
from gradsim.scene.meshes import TetMesh, TriMesh


def load_surface(path: Any, **options: Any) -> Any:
    mesh = load_mesh(path, **options)
    assert isinstance(mesh, TriMesh)
    return mesh


def load_volume(path: Any) -> TetMesh:
    mesh = load_mesh(path)
    assert isinstance(mesh, TetMesh)
    return mesh


def skip_without_pytetwild():
    pytest.importorskip(
        "pytetwild", reason="needs pytetwild and pyvista: pip install 'gradsim[tets]'", exc_type=ImportError
    )


class TestFiles:
    @pytest.mark.parametrize("suffix", SURFACE_FORMATS)
    def test_round_trip_of_surfaces(self, tmp_path, suffix):
        ball = meshes.tet_ball(1 / 3, 4)
        surface = trimesh.Trimesh(ball.vertices, ball.surface, process=False)
        surface.remove_unreferenced_vertices()
        mesh = TriMesh(surface.vertices + np.array([10.0, 0.0, 0.0]), surface.faces)
        path = tmp_path / f"ball{suffix}"
        save_mesh(mesh, path)
        back = load_surface(path)
        exact = suffix in (".obj", ".off")
        assert back.faces.shape == mesh.faces.shape
        assert back.vertices.shape == mesh.vertices.shape
        corners, expected = back.vertices[back.faces], mesh.vertices[mesh.faces]
        np.testing.assert_allclose(corners, expected, atol=1e-15 if exact else 1e-6)
        assert len(back.hinges) == len(back.edges)
        if suffix != ".stl":
            assert np.array_equal(back.faces, mesh.faces)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    @pytest.mark.parametrize("suffix", [".obj", ".ply", ".glb", ".gltf"])
    def test_round_trip_of_uv(self, tmp_path, suffix):
        mesh = meshes.grid((1.0, 2.0), (3, 4))
        save_mesh(mesh, tmp_path / f"sheet{suffix}")
        back = load_surface(tmp_path / f"sheet{suffix}")
        assert mesh.uv is not None
        np.testing.assert_allclose(back.uv, mesh.uv, atol=1e-6)
        np.testing.assert_allclose(back.vertices, mesh.vertices, atol=1e-6)
        assert load_surface(tmp_path / f"sheet{suffix}", keep_uv=False).uv is None

    @pytest.mark.parametrize("suffix", VOLUME_FORMATS)
    @pytest.mark.parametrize("kind", ["tets", "triangles"])
    def test_round_trip_of_volume_formats(self, tmp_path, suffix, kind):
        if suffix == ".xdmf":
            pytest.importorskip("h5py", reason="XDMF files need h5py: pip install h5py")
        mesh = meshes.tet_box((1 / 3, 1.0, 2.0), (1, 2, 2)) if kind == "tets" else meshes.grid(1 / 3, (3, 2))
        path = tmp_path / f"mesh{suffix}"
        save_mesh(mesh, path)
        back = load_mesh(path)
        assert type(back) is type(mesh)
        np.testing.assert_allclose(back.vertices, mesh.vertices, atol=1e-11)
        if isinstance(mesh, TetMesh):
            assert np.array_equal(load_volume(path).tets, mesh.tets)
        else:
            assert np.array_equal(load_surface(path).faces, mesh.faces)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_failed_save_keeps_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "box.vtk"
        save_mesh(meshes.tet_box(1.0, 1), path)
        before = path.read_bytes()

        def write_half(target, mesh):
            open(target, "w").close()
            raise OSError("disk full")

        monkeypatch.setattr(meshio.vtk, "write", write_half)
        with pytest.raises(OSError, match="disk full"):
            save_mesh(meshes.tet_box(2.0, 1), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["box.vtk"]

    def test_vertices_at_texture_seams(self, tmp_path):
        # Two triangles whose shared corners differ in uv and normal, as modelling programs write them.
        path = tmp_path / "seam.obj"
        path.write_text(
            "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0.5 0.5\nvn 0 0 1\nvn 0 1 0\n"
            "f 1/1/1 2/2/1 3/3/1\nf 1/4/2 3/3/2 4/4/2\n"
        )
        split, merged = load_surface(path), load_surface(path, keep_uv=False)
        assert (len(split.vertices), len(split.hinges)) == (5, 0)
        assert (len(merged.vertices), len(merged.hinges)) == (4, 1)
        assert sorted(split.uv[(split.vertices == 0).all(axis=1)].tolist()) == [[0.0, 0.0], [0.5, 0.5]]

    def test_parts_are_transformed_and_joined(self, tmp_path):
        scene = trimesh.Scene()
        cube = trimesh.creation.box()
        scene.add_geometry(cube, transform=trimesh.transformations.translation_matrix([5, 0, 0]))
        mirrored = np.diag([-1.0, 1.0, 1.0, 1.0])
        scene.add_geometry(cube, transform=mirrored)
        scene.export(tmp_path / "two.glb")
        mesh = load_surface(tmp_path / "two.glb")
        assert mesh.vertices.shape == (16, 3)
        assert mesh.vertices[:, 0].max() == pytest.approx(5.5)
        assert enclosed_volume(mesh.vertices, mesh.faces) == pytest.approx(2.0, rel=1e-6)

    def test_degenerate_faces_and_unused_vertices_are_dropped(self, tmp_path):
        path = tmp_path / "dirty.obj"
        path.write_text("v 9 9 9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nf 2 3 4\nf 2 3 3\nf 2 3 5\n")
        mesh = load_surface(path)
        assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        assert mesh.faces.tolist() == [[0, 1, 2]]

    def test_distinct_close_vertices_are_not_merged(self, tmp_path):
        vertices = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1e-4, 1e-4, 0.0], [1e-4, 0.0, 0.0]])
        save_mesh(tri_mesh(vertices, [[0, 1, 2], [0, 4, 3]]), tmp_path / "fine.obj")
        np.testing.assert_allclose(load_surface(tmp_path / "fine.obj").vertices, vertices, atol=1e-15)

    def test_inverted_tets_are_repaired_and_unused_nodes_dropped(self, tmp_path):
        path = tmp_path / "flipped.vtk"
        points = np.concatenate([[[5.0, 5.0, 5.0]], TET])
        cells = [("triangle", [[1, 2, 3]]), ("tetra", [[2, 1, 3, 4]])]
        meshio.vtk.write(str(path), meshio.Mesh(points, cells))
        mesh = load_volume(path)
        assert len(mesh.vertices) == 4
        assert mesh.volumes.tolist() == [pytest.approx(1 / 6)]

    def test_hexahedra_are_rejected(self, tmp_path):
        path = tmp_path / "hex.vtk"
        corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])
        cells = [("tetra", [[0, 1, 3, 4]]), ("hexahedron", [range(8)])]
        meshio.vtk.write(str(path), meshio.Mesh(corners.astype(float), cells))
        with pytest.raises(errors.MeshFileError, match="1 hexahedron"):
            load_mesh(path)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("mesh.xyz", "0 0 0", "extension '.xyz'"),
            ("mesh", "0 0 0", "extension ''"),
            ("points.obj", "v 0 0 0\nv 1 0 0\n", "no triangles"),
            ("flat.obj", "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", "none with an area"),
            ("nan.obj", "v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", "finite"),
            ("far.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "unreadable"),
            *[(f"noise{suffix}", "not a mesh\n" * 9, "") for suffix in (*SURFACE_FORMATS, *VOLUME_FORMATS)],
        ],
    )
    def test_unusable_files_are_rejected(self, tmp_path, capsys, name, content, message):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(errors.MeshFileError) as caught:
            load_mesh(path)
        assert caught.value.name == str(path)
        assert message in str(caught.value)
        assert capsys.readouterr().out == ""

    def test_missing_file_and_folder(self, tmp_path):
        with pytest.raises(errors.MeshFileError, match="no such file"):
            load_mesh(tmp_path / "gone.obj")
        with pytest.raises(errors.MeshFileError, match="no such folder"):
            save_mesh(meshes.grid(1.0, 1), tmp_path / "gone" / "sheet.obj")

    def test_missing_package_of_a_format_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "h5py", None)
        path = tmp_path / "box.xdmf"
        with pytest.raises(errors.MeshFileError, match="pip install h5py"):
            save_mesh(meshes.tet_box(1.0, 1), path)
        path.write_text(
            '<Xdmf Version="3.0"><Domain><Grid Name="Grid"><Geometry GeometryType="XYZ"><DataItem Dimensions="4 3" '
            'Format="HDF">box.h5:/data0</DataItem></Geometry></Grid></Domain></Xdmf>'
        )
        with pytest.raises(errors.MeshFileError, match="pip install h5py"):
            load_mesh(path)

    def test_surface_formats_reject_tets(self, tmp_path):
        with pytest.raises(errors.MeshFileError, match=r"surfaces only.*mesh\.surface"):
            save_mesh(meshes.tet_box(1.0, 1), tmp_path / "box.stl")


class TestTetrahedralize:
    def test_sphere(self, capfd):
        skip_without_pytetwild()
        ico = trimesh.creation.icosphere(subdivisions=2, radius=0.5)
        surface = TriMesh(ico.vertices, ico.faces)
        mesh = tetrahedralize(surface, edge_length=0.1)
        assert mesh.volumes.sum() == pytest.approx(enclosed_volume(surface.vertices, surface.faces), rel=0.02)
        lengths = np.linalg.norm(np.diff(mesh.vertices[mesh.edges], axis=1), axis=-1)
        assert np.median(lengths) == pytest.approx(0.1, rel=0.3)
        assert np.abs(np.linalg.norm(mesh.vertices[mesh.surface], axis=-1) - 0.5).max() < 0.03
        assert capfd.readouterr() == ("", "")

    def test_open_or_inverted_surfaces_are_rejected(self):
        box = meshes.tet_box(1.0, 1)
        faces = box.surface
        uv = np.zeros((8, 2))
        with pytest.raises(errors.InvalidInput, match=r"3 open edges"):
            tetrahedralize(TriMesh(box.vertices, faces[1:], uv))
        with pytest.raises(errors.InvalidInput, match="opposite orientation"):
            tetrahedralize(tri_mesh(box.vertices, [faces[0][::-1], *faces[1:]]))
        with pytest.raises(errors.InvalidInput, match="inside out"):
            tetrahedralize(TriMesh(box.vertices, faces[:, ::-1]))

    @pytest.mark.parametrize("edge_length", [0.0, -1.0, 2.0, np.nan])
    def test_edge_length_is_limited_by_the_surface(self, edge_length):
        box = meshes.tet_box(1.0, 1)
        with pytest.raises(errors.OutOfRange, match="edge_length"):
            tetrahedralize(TriMesh(box.vertices, box.surface), edge_length)

    def test_missing_package_names_the_extra(self, monkeypatch):
        box = meshes.tet_box(1.0, 1)
        monkeypatch.setitem(sys.modules, "pytetwild", None)
        with pytest.raises(errors.MissingExtra, match=r"pip install 'gradsim\[tets\]'"):
            tetrahedralize(TriMesh(box.vertices, box.surface))
