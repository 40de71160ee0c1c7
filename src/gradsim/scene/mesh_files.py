"""Reading and writing of mesh files by trimesh and meshio, and tetrahedralization by fTetWild."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.closed_surfaces import check_closed
from gradsim.scene.errors import InvalidInput, MeshFileError, MissingExtra, OutOfRange
from gradsim.scene.memory import check_file
from gradsim.scene.mesh_validation import Floats
from gradsim.scene.meshes import DEGENERATE, TetMesh, TriMesh, diagonal, oriented, triangle_areas

SURFACE_FORMATS = (".obj", ".ply", ".stl", ".off", ".glb", ".gltf")

# File extension -> meshio module. meshio.read itself would try .msh as Ansys first, and exits the process if a file is
# unreadable.
VOLUME_FORMATS = {
    ".msh": "gmsh",
    ".vtk": "vtk",
    ".vtu": "vtu",
    ".mesh": "medit",
    ".meshb": "medit",
    ".xdmf": "xdmf",
    ".inp": "abaqus",
}

MEMORY = 5.0  # for reading a mesh, over the size of its file

# Vertices closer than this fraction of the bounding box diagonal are merged: some formats repeat them for each face.
MERGE_TOLERANCE = 1e-8
MERGE_TOLERANCE_UV = 1e-6  # of texture coordinates


def load_mesh(path: str | os.PathLike[str], *, keep_uv: bool = True) -> TriMesh | TetMesh:
    """Loads a mesh from a file, in the units of the file.

    Example:
        `gs.load_mesh("bunny.obj")`

    Args:
        path: Surface file (.obj .ply .stl .off .glb .gltf) or volume file (.msh by Gmsh, .vtk .vtu .mesh .meshb .inp,
            and .xdmf with h5py installed).
        keep_uv: Keep texture coordinates, which leaves the surface open along texture seams. False merges the vertices
            of the seams and drops the coordinates.

    Returns:
        The tetrahedra of a volume file, oriented to positive volume; otherwise the triangles. Several parts are joined
        into one mesh, repeated vertices merged, degenerate faces and unused vertices removed.

    Raises:
        MeshFileError: The file is missing, of unknown format, unreadable, or has no usable triangles or tetrahedra.
    """
    file = checked_path("path", path)
    suffix = _known_suffix(file)
    if not file.is_file():
        raise MeshFileError(str(file), "no such file", "needs an existing mesh file")
    check_file("mesh", file, MEMORY)
    try:
        return _read_surface(file, keep_uv) if suffix in SURFACE_FORMATS else _read_volume(file)
    except MeshFileError:
        raise
    except ImportError as error:
        raise _missing_package(file, error) from error
    except InvalidInput as error:
        raise MeshFileError(str(file), f"{error.name} is {error.value}", error.valid) from error
    except Exception as error:  # the readers raise exceptions of many types
        reason = f"{type(error).__name__}: {error}"
        raise MeshFileError(str(file), "unreadable", f"needs a valid {suffix} file ({reason})") from error


def save_mesh(mesh: TriMesh | TetMesh, path: str | os.PathLike[str]) -> None:
    """Writes a mesh atomically to a file; the extension selects the format.

    .obj, .off and the volume formats store double precision, .ply, .stl, .glb and .gltf single precision. Texture
    coordinates are stored in .obj, .ply, .glb and .gltf; .stl stores neither shared vertices nor their order.

    Example:
        `gs.meshes.save_mesh("box.obj", gs.meshes.box(0.5))`

    Raises:
        MeshFileError: The extension is unknown, the folder does not exist, or the format does not support tetrahedra.
    """
    file = checked_path("path", path)
    suffix = _known_suffix(file)
    if suffix in VOLUME_FORMATS:
        try:
            write_atomically(file, lambda target: _write_volume(mesh, target, suffix), MeshFileError)
        except ImportError as error:
            raise _missing_package(file, error) from error
    elif isinstance(mesh, TriMesh):
        content = _surface_bytes(mesh, suffix)
        write_atomically(file, lambda target: target.write_bytes(content), MeshFileError)
    else:
        raise MeshFileError(
            str(file),
            "a tetrahedral mesh",
            f"{suffix} stores surfaces only: use one of {' '.join(VOLUME_FORMATS)}, or save the surface "
            "TriMesh(mesh.vertices, mesh.surface)",
        )


def tetrahedralize(surface: TriMesh, edge_length: float | None = None, *, tolerance: float | None = None) -> TetMesh:
    """Tetrahedralizes the inside of a closed surface by fTetWild (Hu et al. 2020) in the optional package pytetwild.

    fTetWild has no seed: two calls give slightly different meshes. For reproducible experiments, save the result with
    `save_mesh` and load it.

    Example:
        `gs.meshes.tetrahedralize(gs.meshes.box(0.5))`

    Args:
        surface: Closed surface with outward orientation.
        edge_length: Target edge length [m]; None takes 1/20 of the bounding box diagonal.
        tolerance: Maximum distance of the new surface from the given one [m]; None takes 1/1000 of the diagonal.

    Raises:
        MissingExtra: pytetwild, or the pyvista it imports, is not installed.
        InvalidInput: The surface is open or inside out, or fTetWild failed.
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
        raise InvalidInput("surface", faces, f"fTetWild failed: {error}") from error
    if len(tets) == 0:
        raise InvalidInput("surface", faces, "fTetWild returned no tetrahedra: lower edge_length and tolerance")
    return oriented(vertices, tets)


def _known_suffix(file: Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in SURFACE_FORMATS and suffix not in VOLUME_FORMATS:
        known = " ".join([*SURFACE_FORMATS, *VOLUME_FORMATS])
        raise MeshFileError(str(file), f"extension '{suffix}'", f"needs one of {known}")
    return suffix


def _missing_package(file: Path, error: ImportError) -> MeshFileError:
    if error.name == "charset_normalizer":  # with which trimesh would guess the encoding of bytes that are not text
        return MeshFileError(str(file), "unreadable", f"needs a valid {file.suffix} file (its bytes are not text)")
    remedy = f"pip install {error.name}" if error.name else str(error)
    return MeshFileError(str(file), f"a {file.suffix} file", f"needs another package: {remedy}")


def _read_surface(file: Path, keep_uv: bool) -> TriMesh:
    import trimesh

    options = {"skip_materials": True} if file.suffix.lower() == ".obj" else {}
    scene = trimesh.load_scene(file, process=False, resolver=_own_folder(file), **options)
    parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh) and len(part.faces)]
    if not parts:
        raise MeshFileError(str(file), "no triangles", "needs a triangle surface")
    starts = np.cumsum([0] + [len(part.vertices) for part in parts[:-1]])
    vertices = np.concatenate([part.vertices for part in parts])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=True)])
    uvs = [part.visual.uv for part in parts if getattr(part.visual, "uv", None) is not None]
    uv = np.concatenate(uvs) if keep_uv and len(uvs) == len(parts) else None
    return _merged(file, vertices, faces, uv)


def _own_folder(file: Path) -> Any:
    """Returns what gives trimesh the further files that a file names; those outside its folder are refused."""
    from trimesh.resolvers import FilePathResolver

    class OwnFolder(FilePathResolver):
        def get(self, name: str) -> Any:
            if not (file.parent / name).resolve().is_relative_to(file.parent.resolve()):
                raise MeshFileError(str(file), f"data in {name}", "needs all its data in files of its own folder")
            return super().get(name)

    return OwnFolder(str(file))


def _read_volume(file: Path) -> TriMesh | TetMesh:
    import meshio

    if file.suffix.lower() == ".xdmf":
        _reject_foreign_arrays(file)
    content = getattr(meshio, VOLUME_FORMATS[file.suffix.lower()]).read(str(file))
    cell_types = dict.fromkeys(block.type for block in content.cells)
    cells = {name: np.concatenate([block.data for block in content.cells if block.type == name]) for name in cell_types}
    wanted = "tetra" if "tetra" in cells else "triangle"
    # Cells of lower dimension mark the boundary. Dropping cells of any other type would silently remove volume.
    markers = ("vertex", "line") + (("triangle", "quad") if wanted == "tetra" else ())
    unsupported = {name: len(rows) for name, rows in cells.items() if name != wanted and not name.startswith(markers)}
    if unsupported:
        found = ", ".join(f"{count} {name}" for name, count in unsupported.items())
        raise MeshFileError(str(file), f"cells: {found}", "needs tetra or triangle cells: split these when exporting")
    if wanted not in cells:
        raise MeshFileError(str(file), "no tetrahedra or triangles", "needs a tetrahedral or triangle mesh")
    if wanted == "triangle":
        return _merged(file, np.asarray(content.points, dtype=np.float64), cells["triangle"], None)
    used, tets = _compact(cells["tetra"], len(content.points))
    return oriented(content.points[used], tets)


def _reject_foreign_arrays(file: Path) -> None:
    """Raises MeshFileError if an XDMF file names a file of arrays outside its folder."""
    for item in ElementTree.parse(file).iter("DataItem"):
        name = (item.text or "").strip().partition(":")[0]
        if item.get("Format") == "HDF" and not (file.parent / name).resolve().is_relative_to(file.parent.resolve()):
            raise MeshFileError(str(file), f"arrays in {name}", "needs arrays in files of its own folder")


def _merged(file: Path, vertices: Floats, faces: NDArray[Any], uv: Floats | None) -> TriMesh:
    """Returns a mesh without repeated vertices, degenerate faces and unused vertices; the order of the rest stays."""
    if not np.isfinite(vertices).all():
        return TriMesh(vertices, faces, uv)
    extent = diagonal(vertices)
    keys = np.round((vertices - vertices.min(axis=0)) / (MERGE_TOLERANCE * extent or 1.0))
    if uv is not None:
        keys = np.concatenate([keys, np.round(uv / MERGE_TOLERANCE_UV)], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    faces = first[inverse.reshape(-1)][faces]
    valid = triangle_areas(vertices, faces) > DEGENERATE * extent**2
    if not valid.any():
        raise MeshFileError(str(file), f"{len(faces)} faces, none with an area", "needs a triangle surface")
    used, faces = _compact(faces[valid], len(vertices))
    return TriMesh(vertices[used], faces, None if uv is None else uv[used])


def _compact(elements: NDArray[Any], vertex_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the sorted indices of the vertices in use, and the elements with indices into them."""
    used, renumbered = np.unique(elements, return_inverse=True)
    if used[0] < 0 or used[-1] >= vertex_count:
        raise OutOfRange("vertex indices", f"{used[0]} to {used[-1]}", f"must lie between 0 and {vertex_count - 1}")
    return used, renumbered.reshape(elements.shape)


def _surface_bytes(mesh: TriMesh, suffix: str) -> bytes:
    """Returns the content of a surface file."""
    import trimesh
    from trimesh.exchange import gltf, obj, off, ply, stl

    visual = None if mesh.uv is None else trimesh.visual.TextureVisuals(uv=mesh.uv)
    surface = trimesh.Trimesh(mesh.vertices, mesh.faces, visual=visual, process=False)
    if suffix == ".obj":
        text = obj.export_obj(surface, include_normals=False, write_texture=False, digits=17, header=None)
        # trimesh refers to a material file even if it writes none.
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
    # By default XDMF stores arrays in a second, HDF5 file, whose name would be that of the temporary file.
    options = {"data_format": "XML"} if suffix == ".xdmf" else {}
    getattr(meshio, VOLUME_FORMATS[suffix]).write(str(target), meshio.Mesh(mesh.vertices, cells), **options)


def _checked_length(name: str, value: float | None, *, default: float, largest: float) -> float:
    if value is None:
        return default
    if not 0 < value <= largest:
        raise OutOfRange(name, value, f"needs a length > 0 and at most the diagonal of the surface, {largest:.3g} m")
    return float(value)
