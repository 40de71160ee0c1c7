"""Meshes from and to other programs: files through trimesh and meshio, volumes filled by fTetWild."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, MeshFileError, MissingExtra, OutOfRange
from gradsim.scene.meshes import DEGENERATE, Floats, TetMesh, TriMesh, diagonal, oriented, triangle_areas
from gradsim.scene.surfaces import check_closed

SURFACE_FORMATS = (".obj", ".ply", ".stl", ".off", ".glb", ".gltf")

# Extension to the meshio module that reads and writes it. meshio.read itself would take .msh for Ansys first, and ends
# the process when a file is unreadable.
VOLUME_FORMATS = {
    ".msh": "gmsh",
    ".vtk": "vtk",
    ".vtu": "vtu",
    ".mesh": "medit",
    ".meshb": "medit",
    ".xdmf": "xdmf",
    ".inp": "abaqus",
}

# Vertices closer than this share of the bounding box diagonal are one vertex: formats repeat them for each face.
WELD = 1e-8
WELD_UV = 1e-6


def load_mesh(path: str | os.PathLike[str], *, keep_uv: bool = True) -> TriMesh | TetMesh:
    """Mesh from a file, in the units of the file.

    Args:
        path: Surface file (.obj .ply .stl .off .glb .gltf) or volume file (.msh by Gmsh, .vtk .vtu .mesh .meshb .inp,
            and .xdmf with h5py installed).
        keep_uv: Keep texture coordinates, which leaves a surface cut open along its texture seams. False welds the
            seams and drops the coordinates.

    Returns:
        The tetrahedra of a volume file, turned to positive volume, else the triangles. Surfaces of several parts
        become one, repeated vertices are welded, faces without area and unused vertices left out.

    Raises:
        MeshFileError: The file is missing, of unknown kind, unreadable, or holds no usable triangles or tetrahedra.
    """
    file = Path(path)
    suffix = _known_suffix(file)
    if not file.is_file():
        raise MeshFileError(str(file), "no such file", "needs an existing mesh file")
    try:
        return _read_surface(file, keep_uv) if suffix in SURFACE_FORMATS else _read_volume(file)
    except MeshFileError:
        raise
    except ImportError as error:
        raise _missing_reader(file, error) from error
    except InvalidInput as error:
        raise MeshFileError(str(file), f"{error.name} is {error.value}", error.valid) from error
    except Exception as error:  # the readers raise whatever their parsing trips over
        reason = f"{type(error).__name__}: {error}"
        raise MeshFileError(str(file), "unreadable", f"needs a valid {suffix} file ({reason})") from error


def save_mesh(mesh: TriMesh | TetMesh, path: str | os.PathLike[str]) -> None:
    """Write a mesh to a file whose extension names the format; the file appears whole or not at all.

    .obj, .off and the volume formats keep full precision, .ply, .stl, .glb and .gltf single precision. Texture
    coordinates are kept by .obj, .ply, .glb and .gltf; .stl forgets which vertices are shared and in which order.

    Raises:
        MeshFileError: The extension or folder is unknown, or the format cannot hold tetrahedra.
    """
    file = Path(path)
    suffix = _known_suffix(file)
    if suffix in VOLUME_FORMATS:
        try:
            write_atomically(file, lambda target: _write_volume(mesh, target, suffix), MeshFileError)
        except ImportError as error:
            raise _missing_reader(file, error) from error
    elif isinstance(mesh, TriMesh):
        content = _surface_bytes(mesh, suffix)
        write_atomically(file, lambda target: target.write_bytes(content), MeshFileError)
    else:
        raise MeshFileError(
            str(file),
            "a tetrahedral mesh",
            f"{suffix} holds surfaces only: use one of {' '.join(VOLUME_FORMATS)}, or save the surface "
            "TriMesh(mesh.vertices, mesh.surface)",
        )


def tetrahedralize(surface: TriMesh, edge_length: float | None = None, *, tolerance: float | None = None) -> TetMesh:
    """Fill a closed surface with tetrahedra, by fTetWild (Hu et al. 2020) through the optional package pytetwild.

    Args:
        surface: Closed surface, outside out.
        edge_length: Target edge length [m]; None takes a twentieth of the bounding box diagonal.
        tolerance: How far the new surface may leave the given one [m]; None takes a thousandth of the diagonal.

    fTetWild has no seed: two calls give slightly different meshes. To repeat an experiment, save the result with
    `save_mesh` and load it.

    Raises:
        MissingExtra: pytetwild, or the pyvista it imports, is not installed.
        InvalidInput: The surface is open or inside out, or could not be filled.
    """
    check_closed("surface", surface)
    extent = diagonal(surface.vertices)
    edge = _checked_length("edge_length", edge_length, default=extent / 20, largest=extent)
    deviation = _checked_length("tolerance", tolerance, default=extent / 1000, largest=extent)
    try:
        import pytetwild
    except ImportError as error:
        raise MissingExtra("tetrahedralize", "tets") from error
    faces = f"{len(surface.faces)} faces"
    try:
        vertices, tets = pytetwild.tetrahedralize(
            surface.vertices.copy(),
            surface.faces.copy(),
            edge_length_abs=edge,
            epsilon=deviation / extent,
            num_threads=1,
            quiet=True,
        )
    except RuntimeError as error:
        raise InvalidInput("surface", faces, f"fTetWild could not fill it: {error}") from error
    if len(tets) == 0:
        raise InvalidInput("surface", faces, "fTetWild found no inside: lower edge_length and tolerance")
    return oriented(vertices, tets)


def _known_suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in SURFACE_FORMATS and suffix not in VOLUME_FORMATS:
        known = " ".join([*SURFACE_FORMATS, *VOLUME_FORMATS])
        raise MeshFileError(str(file), f"extension '{suffix}'", f"needs one of {known}")
    return suffix


def _missing_reader(file: Path, error: ImportError) -> MeshFileError:
    remedy = f"pip install {error.name}" if error.name else str(error)
    return MeshFileError(str(file), f"a {file.suffix} file", f"needs another package: {remedy}")


def _read_surface(file: Path, keep_uv: bool) -> TriMesh:
    import trimesh

    options = {"skip_materials": True} if file.suffix.lower() == ".obj" else {}
    scene = trimesh.load_scene(file, process=False, **options)
    parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh) and len(part.faces)]
    if not parts:
        raise MeshFileError(str(file), "no triangles", "needs a triangle surface")
    starts = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    vertices = np.concatenate([part.vertices for part in parts])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=True)])
    uvs = [part.visual.uv for part in parts if getattr(part.visual, "uv", None) is not None]
    uv = np.concatenate(uvs) if keep_uv and len(uvs) == len(parts) else None
    return _welded(file, vertices, faces, uv)


def _read_volume(file: Path) -> TriMesh | TetMesh:
    import meshio

    content = getattr(meshio, VOLUME_FORMATS[file.suffix.lower()]).read(str(file))
    cells = {
        kind: np.concatenate([block.data for block in content.cells if block.type == kind]) for kind in _kinds(content)
    }
    wanted = "tetra" if "tetra" in cells else "triangle"
    # Cells of lower dimension only mark the boundary; any other kind is matter that would silently go missing.
    markers = ("vertex", "line") + (("triangle", "quad") if wanted == "tetra" else ())
    foreign = {kind: len(rows) for kind, rows in cells.items() if kind != wanted and not kind.startswith(markers)}
    if foreign:
        found = ", ".join(f"{count} {kind}" for kind, count in foreign.items())
        raise MeshFileError(str(file), f"cells: {found}", "needs tetra or triangle cells: split these when exporting")
    if wanted not in cells:
        raise MeshFileError(str(file), "no tetrahedra or triangles", "needs a tetrahedral or triangle mesh")
    if wanted == "triangle":
        return _welded(file, np.asarray(content.points, dtype=np.float64), cells["triangle"], None)
    used, tets = _compact(cells["tetra"], len(content.points))
    return oriented(content.points[used], tets)


def _kinds(content: Any) -> list[str]:
    return list(dict.fromkeys(block.type for block in content.cells))


def _welded(file: Path, vertices: Floats, faces: NDArray[Any], uv: Floats | None) -> TriMesh:
    """Triangle mesh without repeated vertices, faces without area and unused vertices; first come, first kept."""
    if not np.isfinite(vertices).all():
        return TriMesh(vertices, faces, uv)
    extent = diagonal(vertices)
    keys = np.round((vertices - vertices.min(axis=0)) / (WELD * extent or 1.0))
    if uv is not None:
        keys = np.concatenate([keys, np.round(uv / WELD_UV)], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    faces = first[inverse.reshape(-1)][faces]
    whole = triangle_areas(vertices, faces) > DEGENERATE * extent**2
    if not whole.any():
        raise MeshFileError(str(file), f"{len(faces)} faces, none with an area", "needs a triangle surface")
    used, faces = _compact(faces[whole], len(vertices))
    return TriMesh(vertices[used], faces, None if uv is None else uv[used])


def _compact(elements: NDArray[Any], vertex_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the vertices in use, ascending, and the elements renumbered to them."""
    used, renumbered = np.unique(elements, return_inverse=True)
    if used[0] < 0 or used[-1] >= vertex_count:
        raise OutOfRange("vertex numbers", f"{used[0]} to {used[-1]}", f"must lie between 0 and {vertex_count - 1}")
    return used, renumbered.reshape(elements.shape)


def _surface_bytes(mesh: TriMesh, suffix: str) -> bytes:
    """Content of a surface file."""
    import trimesh
    from trimesh.exchange import gltf, obj, off, ply, stl

    visual = None if mesh.uv is None else trimesh.visual.TextureVisuals(uv=mesh.uv)
    surface = trimesh.Trimesh(mesh.vertices, mesh.faces, visual=visual, process=False)
    if suffix == ".obj":
        text = obj.export_obj(surface, include_normals=False, write_texture=False, digits=17, header=None)
        # trimesh names a material file even when there is none to write.
        return "\n".join(line for line in text.split("\n") if not line.startswith(("mtllib", "usemtl"))).encode()
    if suffix == ".off":
        return str(off.export_off(surface, digits=17)).encode()
    if suffix == ".ply":
        return bytes(ply.export_ply(surface))
    if suffix == ".stl":
        return bytes(stl.export_stl(surface))
    if suffix == ".glb":
        return bytes(gltf.export_glb(trimesh.Scene(surface), include_normals=False))
    files = gltf.export_gltf(trimesh.Scene(surface), include_normals=False, embed_buffers=True)
    return bytes(files["model.gltf"])


def _write_volume(mesh: TriMesh | TetMesh, target: Path, suffix: str) -> None:
    import meshio

    cells = [("tetra", mesh.tets)] if isinstance(mesh, TetMesh) else [("triangle", mesh.faces)]
    # XDMF would put its numbers into a second, HDF5 file, named after the temporary one.
    options = {"data_format": "XML"} if suffix == ".xdmf" else {}
    getattr(meshio, VOLUME_FORMATS[suffix]).write(str(target), meshio.Mesh(mesh.vertices, cells), **options)


def _checked_length(name: str, value: float | None, *, default: float, largest: float) -> float:
    if value is None:
        return default
    if not 0 < value <= largest:
        raise OutOfRange(name, value, f"needs a length above 0 and up to the diagonal of the surface, {largest:.3g} m")
    return float(value)
