"""Scenes and their motion as OpenUSD files (.usda, .usdc, .usdz), for Blender, Houdini, Omniverse and usdview.

A rigid body is a mesh with time samples of translation and rotation. A deforming surface has time samples of its
points.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, MissingExtra
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.encoders import png_bytes, to_bytes
from gradsim.view.glb import ROUGHNESS, linear_light, quaternions
from gradsim.view.surfaces import MovingSurface, check_visible, frame_times, moving_surfaces

SUFFIXES = (".usda", ".usdc", ".usdz")
DEFAULT_RATE = 30.0  # time codes per second of a single frame


def save_usd(path: str | os.PathLike[str], scene: Scene, trajectory: Trajectory, *, world: int = 0) -> None:
    """Writes a scene and its motion as OpenUSD, atomically. It needs `pip install 'gradsim[usd]'`.

    Lengths are in metres, y is up, and a time code is a frame. Textures, the checkerboard of the ground among them, are
    part of a .usdz file; a .usda or .usdc file has the mean colour of a texture instead.

    Example:
        `gs.save_usd("bounce.usdz", scene, gs.simulate(scene, frames=60))`

    Args:
        path: File in an existing folder: .usda (text), .usdc (binary) or .usdz (a package with textures).
        scene: The scene that was simulated, without unknowns.
        trajectory: Motions of its bodies; with one frame there is no animation.
        world: World of the batch, by its number in the flattened batch.
    """
    file = checked_path("path", path)
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidInput("path", str(file), f"must end in {', '.join(SUFFIXES)}")
    try:
        import pxr  # noqa: F401
    except ImportError as error:
        raise MissingExtra("gs.save_usd", "usd") from error
    surfaces, times = moving_surfaces(scene, trajectory, world), frame_times(trajectory)
    check_visible(surfaces)
    write_atomically(file, lambda target: _write(target, surfaces, times), InvalidInput)


def _write(file: Path, surfaces: Sequence[MovingSurface], times: np.ndarray) -> None:
    from pxr import UsdUtils

    packaged = file.suffix.lower() == ".usdz"
    layer = file.with_suffix(".usdc") if packaged else file
    _Stage(layer, times, packaged).add(surfaces)
    if packaged and not UsdUtils.CreateNewUsdzPackage(str(layer), str(file)):
        raise OSError(0, "OpenUSD could not write the package", str(file))


class _Stage:
    """A stage while it is built.

    Args:
        file: Its layer.
        times: Times of the frames [s].
        textured: Whether textures are written beside it, to be packaged.
    """

    def __init__(self, file: Path, times: np.ndarray, textured: bool):
        from pxr import Usd, UsdGeom

        self.file, self.textured = file, textured
        rate = float(1.0 / (times[1] - times[0])) if len(times) > 1 else DEFAULT_RATE
        self.codes = ((times - times[0]) * rate).tolist()
        self.stage: Any = Usd.Stage.CreateNew(str(file))
        UsdGeom.SetStageUpAxis(self.stage, UsdGeom.Tokens.y)
        UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        self.stage.SetTimeCodesPerSecond(rate)
        self.stage.SetFramesPerSecond(rate)
        self.stage.SetStartTimeCode(self.codes[0])
        self.stage.SetEndTimeCode(self.codes[-1])
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, "/scene").GetPrim())

    def add(self, surfaces: Sequence[MovingSurface]) -> None:
        """Adds all surfaces and saves the stage."""
        from pxr import Tf

        taken: set[str] = set()
        for surface in surfaces:
            name = Tf.MakeValidIdentifier(surface.name)
            while name in taken:
                name += "_"
            taken.add(name)
            self._add(name, surface)
        self.stage.Save()

    def _add(self, name: str, surface: MovingSurface) -> None:
        from pxr import UsdGeom, Vt

        mesh = UsdGeom.Mesh.Define(self.stage, f"/scene/{name}")
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        mesh.CreateDoubleSidedAttr(True)
        mesh.CreateFaceVertexCountsAttr(Vt.IntArray([3] * len(surface.faces)))
        mesh.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(surface.faces.reshape(-1).astype(np.int32)))
        self._color(mesh, surface)
        if surface.axes is not None and surface.origin is not None:
            mesh.CreatePointsAttr(_vectors(surface.points[surface.vertices]))
            self._move(mesh, surface.axes, surface.origin)
        else:
            frames = surface.points[:, surface.vertices]
            self._sample(mesh.CreatePointsAttr(_vectors(frames[0])), [_vectors(frame) for frame in frames])
        if surface.texture is not None and surface.uv is not None and self.textured:
            self._texture(name, mesh, surface.uv, surface.texture)

    def _color(self, mesh: Any, surface: MovingSurface) -> None:
        from pxr import UsdGeom

        colors = surface.colors if surface.texture is None else surface.colors * surface.texture.mean((0, 1))
        equal = bool((colors == colors[0]).all())
        primvar = mesh.CreateDisplayColorPrimvar(UsdGeom.Tokens.constant if equal else UsdGeom.Tokens.vertex)
        primvar.Set(_vectors(linear_light(colors[:1] if equal else colors)))

    def _move(self, mesh: Any, axes: np.ndarray, origin: np.ndarray) -> None:
        from pxr import Gf, UsdGeom

        places = [Gf.Vec3d(*row) for row in origin.tolist()]
        turns = [Gf.Quatd(w, x, y, z) for x, y, z, w in quaternions(axes).tolist()]
        precise = UsdGeom.XformOp.PrecisionDouble
        for operation, values in ((mesh.AddTranslateOp(precise), places), (mesh.AddOrientOp(precise), turns)):
            self._sample(operation, values)

    def _sample(self, attribute: Any, values: Sequence[Any]) -> None:
        """Sets a value, or values at all frames."""
        if len(values) == 1:
            attribute.Set(values[0])
        else:
            for code, value in zip(self.codes, values, strict=True):
                attribute.Set(value, code)

    def _texture(self, name: str, mesh: Any, uv: np.ndarray, texture: np.ndarray) -> None:
        """A material with an image; the file of the image is beside the layer."""
        from pxr import Sdf, UsdGeom, UsdShade, Vt

        image = self.file.with_name(f"{name}.png")
        pixels = torch.from_numpy(np.ascontiguousarray(texture, dtype=np.float32))
        image.write_bytes(png_bytes(to_bytes(pixels)))
        kind, vertex = Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.vertex
        coordinates = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", kind, vertex)
        coordinates.Set(Vt.Vec2fArray.FromNumpy(uv.astype(np.float32)))
        material = UsdShade.Material.Define(self.stage, f"/scene/{name}/material")

        def shader(part: str, identifier: str) -> Any:
            made = UsdShade.Shader.Define(self.stage, f"/scene/{name}/material/{part}")
            made.CreateIdAttr(identifier)
            return made

        surface, picture = shader("surface", "UsdPreviewSurface"), shader("image", "UsdUVTexture")
        reader = shader("coordinates", "UsdPrimvarReader_float2")
        reader.CreateInput("varname", Sdf.ValueTypeNames.String).Set("st")
        picture.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(f"./{image.name}")
        for side in ("wrapS", "wrapT"):
            picture.CreateInput(side, Sdf.ValueTypeNames.Token).Set("repeat")
        places = reader.CreateOutput("result", Sdf.ValueTypeNames.Float2)
        picture.CreateInput("st", Sdf.ValueTypeNames.Float2).ConnectToSource(places)
        surface.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(ROUGHNESS)
        color = picture.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
        surface.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).ConnectToSource(color)
        material.CreateSurfaceOutput().ConnectToSource(surface.ConnectableAPI(), "surface")
        UsdShade.MaterialBindingAPI.Apply(mesh.GetPrim()).Bind(material)


def _vectors(rows: np.ndarray) -> Any:
    """Rows [N, 3] as an array of OpenUSD."""
    from pxr import Vt

    return Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(rows, dtype=np.float32))
