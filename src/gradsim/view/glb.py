"""Scenes and their motion as binary glTF 2.0 (.glb), for Blender, browsers and other viewers.

A rigid body is a node with translations and rotations over time. A deforming surface has one morph target per frame.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.encoders import png_bytes, to_bytes
from gradsim.view.surfaces import MovingSurface, check_visible, frame_times, moving_surfaces

FLOAT, UINT = 5126, 5125  # glTF's component types
TYPES = {(): "SCALAR", (2,): "VEC2", (3,): "VEC3", (4,): "VEC4"}
ROUGHNESS = 0.9


def save_glb(path: str | os.PathLike[str], scene: Scene, trajectory: Trajectory, *, world: int = 0) -> None:
    """Writes a scene and its motion as binary glTF (.glb), atomically.

    Example:
        `gs.save_glb("bounce.glb", scene, trajectory)`

    Args:
        path: File in an existing folder; its extension must be .glb.
        scene: The scene that was simulated, without unknowns.
        trajectory: Motions of its bodies; with one frame there is no animation.
        world: World of the batch, by its number in the flattened batch.
    """
    file = checked_path("path", path)
    if file.suffix.lower() != ".glb":
        raise InvalidInput("path", str(file), "must end in .glb")
    content = glb_bytes(moving_surfaces(scene, trajectory, world), frame_times(trajectory))
    write_atomically(file, lambda target: target.write_bytes(content), InvalidInput)


def glb_bytes(surfaces: Sequence[MovingSurface], times: np.ndarray) -> bytes:
    """Returns surfaces and their motion at some times [s], [T], as the content of a .glb file."""
    check_visible(surfaces)
    file = _File()
    for surface in surfaces:
        file.add_surface(surface, times)
    return file.content()


class _File:
    """The JSON document and the binary chunk of a file, while they are built."""

    def __init__(self) -> None:
        self.chunk = bytearray()
        self.channels: list[dict[str, Any]] = []
        self.samplers: list[dict[str, Any]] = []
        self.document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "gradsim"},
            "scene": 0,
            "scenes": [{"nodes": []}],
            **{name: [] for name in ("nodes", "meshes", "materials", "accessors", "bufferViews")},
        }

    def content(self) -> bytes:
        document = {**self.document, "buffers": [{"byteLength": len(self.chunk)}]}
        if self.channels:
            document["animations"] = [{"channels": self.channels, "samplers": self.samplers}]
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        data = bytes(self.chunk) + bytes(-len(self.chunk) % 4)
        length = 12 + 8 + len(text) + 8 + len(data)
        head = struct.pack("<4sII", b"glTF", 2, length)
        return head + struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\x00") + data

    def add_surface(self, surface: MovingSurface, times: np.ndarray) -> None:
        rigid = surface.axes is not None and surface.origin is not None
        rows = (surface.points if rigid else surface.points[0])[surface.vertices]
        attributes = {
            "POSITION": self.accessor(rows),
            "NORMAL": self.accessor(_normals(rows, surface.faces)),
            "COLOR_0": self.accessor(linear_light(surface.colors)),
        }
        if surface.uv is not None:
            attributes["TEXCOORD_0"] = self.accessor(surface.uv * (1.0, -1.0) + (0.0, 1.0))  # glTF's v points down
        primitive: dict[str, Any] = {
            "attributes": attributes,
            "indices": self.accessor(surface.faces.reshape(-1), UINT),
            "material": self.material(surface),
        }
        mesh: dict[str, Any] = {"name": surface.name, "primitives": [primitive]}
        node = {"name": surface.name, "mesh": len(self.document["meshes"])}
        number = len(self.document["nodes"])
        self.document["meshes"].append(mesh)
        self.document["nodes"].append(node)
        self.document["scenes"][0]["nodes"].append(number)
        if rigid:
            self._move(surface, node, number, times)
        elif len(surface.points) > 1:
            self._morph(surface, mesh, primitive, number, times)

    def _move(self, surface: MovingSurface, node: dict[str, Any], number: int, times: np.ndarray) -> None:
        assert surface.axes is not None
        assert surface.origin is not None
        rotations = quaternions(surface.axes)
        node |= {"translation": surface.origin[0].tolist(), "rotation": rotations[0].tolist()}
        for path, values in (("translation", surface.origin), ("rotation", rotations)):
            if len(values) > 1:
                self.animate(number, path, times, values)

    def _morph(
        self, surface: MovingSurface, mesh: dict[str, Any], primitive: dict[str, Any], number: int, times: np.ndarray
    ) -> None:
        """Frames after the first as differences from it; at each of them its own weight is one and the others zero."""
        rows = surface.points[:, surface.vertices]
        first = _normals(rows[0], surface.faces)
        primitive["targets"] = [
            {
                "POSITION": self.accessor(frame - rows[0]),
                "NORMAL": self.accessor(_normals(frame, surface.faces) - first),
            }
            for frame in rows[1:]
        ]
        count = len(rows)
        mesh["weights"] = [0.0] * (count - 1)
        self.animate(number, "weights", times, np.eye(count)[:, 1:].reshape(-1))

    def animate(self, node: int, path: str, times: np.ndarray, values: np.ndarray) -> None:
        sampler = {"input": self.accessor(times), "output": self.accessor(values), "interpolation": "LINEAR"}
        self.channels.append({"sampler": len(self.samplers), "target": {"node": node, "path": path}})
        self.samplers.append(sampler)

    def material(self, surface: MovingSurface) -> int:
        look: dict[str, Any] = {"metallicFactor": 0.0, "roughnessFactor": ROUGHNESS}
        if surface.texture is not None:
            pixels = torch.from_numpy(np.ascontiguousarray(surface.texture, dtype=np.float32))
            images = self.document.setdefault("images", [])
            images.append({"bufferView": self.view(png_bytes(to_bytes(pixels))), "mimeType": "image/png"})
            self.document.setdefault("textures", []).append({"source": len(images) - 1})
            look["baseColorTexture"] = {"index": len(images) - 1}
        material: dict[str, Any] = {"name": surface.name, "pbrMetallicRoughness": look, "doubleSided": True}
        if not surface.lit:
            material["extensions"] = {"KHR_materials_unlit": {}}
            self.document["extensionsUsed"] = ["KHR_materials_unlit"]
        self.document["materials"].append(material)
        return len(self.document["materials"]) - 1

    def accessor(self, values: np.ndarray, kind: int = FLOAT) -> int:
        array = np.ascontiguousarray(values, dtype=np.float32 if kind == FLOAT else np.uint32)
        accessor = {
            "bufferView": self.view(array.tobytes()),
            "componentType": kind,
            "count": len(array),
            "type": TYPES[array.shape[1:]],
            "min": np.atleast_1d(array.min(0)).tolist(),
            "max": np.atleast_1d(array.max(0)).tolist(),
        }
        self.document["accessors"].append(accessor)
        return len(self.document["accessors"]) - 1

    def view(self, content: bytes) -> int:
        self.chunk += bytes(-len(self.chunk) % 4)
        self.document["bufferViews"].append({"buffer": 0, "byteOffset": len(self.chunk), "byteLength": len(content)})
        self.chunk += content
        return len(self.document["bufferViews"]) - 1


def quaternions(axes: np.ndarray) -> np.ndarray:
    """Returns unit quaternions (x, y, z, w), [T, 4], of rotated axes as rows, [T, 3, 3]; neighbours have one sign."""
    m = axes.swapaxes(-1, -2)  # rotation matrices
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    squares = np.stack([1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz, 1 + xx + yy + zz], 1)
    products = np.empty((len(m), 4, 4))  # four times the products of two components
    products[:, range(4), range(4)] = squares
    for i, j, value in (
        (0, 1, m[:, 1, 0] + m[:, 0, 1]),
        (0, 2, m[:, 0, 2] + m[:, 2, 0]),
        (1, 2, m[:, 2, 1] + m[:, 1, 2]),
        (0, 3, m[:, 2, 1] - m[:, 1, 2]),
        (1, 3, m[:, 0, 2] - m[:, 2, 0]),
        (2, 3, m[:, 1, 0] - m[:, 0, 1]),
    ):
        products[:, i, j] = products[:, j, i] = value
    q = products[np.arange(len(m)), squares.argmax(1)]  # the row of the largest component is the most accurate
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    signs = np.sign((q[1:] * q[:-1]).sum(1))
    q[1:] *= np.cumprod(np.where(signs < 0, -1.0, 1.0))[:, None]
    return q


def _normals(rows: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Returns unit normals of rows, [R, 3], weighted by the areas of their faces."""
    a, b, c = (rows[faces[:, k]] for k in range(3))
    normals = np.zeros_like(rows, dtype=np.float64)
    np.add.at(normals, faces.ravel(), np.repeat(np.cross(b - a, c - a), 3, axis=0))
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 0, normals / np.maximum(length, 1e-300), (0.0, 1.0, 0.0))


def linear_light(colors: np.ndarray) -> np.ndarray:
    """Converts displayed colours (sRGB) to linear light, which glTF and OpenUSD have at vertices."""
    x = np.clip(colors, 0.0, 1.0)
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
