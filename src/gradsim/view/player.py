"""The motion of a scene as a 3D player: one HTML element with its data, drawn by a small script in WebGL.

The script is gradsim's own: 15 kB in every page, where a general library for WebGL is several hundred. The page needs
no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.render.camera import projection
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.view.surfaces import MovingSurface, frame_times, moving_surfaces

HERE = Path(__file__).parent
MAX_BYTES = 24_000_000  # of the positions in a page, before compression; frames are left out beyond
KINDS = {"f": np.float32, "H": np.uint16, "I": np.uint32, "B": np.uint8}
LEVELS = 65535  # of a 16-bit position
PATH_COLORS = ((0.12, 0.35, 0.65), (0.75, 0.25, 0.15), (0.15, 0.5, 0.25), (0.5, 0.25, 0.6))
FOV = 45.0  # [degrees], of a view without a camera
CAPTION = (
    "Drag to turn, shift-drag to move, click and scroll to zoom, double-click for the camera of the scene. "
    "Lines are the paths of centres."
)


class Player:
    """A player of a scene and its trajectory.

    Args:
        scene: The scene that was simulated, without unknowns.
        trajectory: Motions of its bodies.
        world: World of the batch, by its number in the flattened batch.
    """

    def __init__(self, scene: Scene, trajectory: Trajectory, world: int = 0):
        surfaces = moving_surfaces(scene, trajectory, world)
        self.empty = not surfaces  # whether there is nothing to draw
        self.stride = _stride(surfaces)  # every k-th frame is in the page
        self.aspect = 1.6
        times = frame_times(trajectory)
        self._arrays: list[tuple[str, bytes, int]] = []
        self._header = {
            "times": times[:: self.stride].tolist(),
            "surfaces": [self._surface(surface) for surface in surfaces],
            "paths": self._paths(surfaces),
            "camera": view_of(scene, surfaces),
        }

    def element(self, *, autoplay: bool = False) -> str:
        """Returns the HTML of the player; `script_element` must follow it on the page."""
        auto = ' data-autoplay="1"' if autoplay else ""
        still = " hidden" if len(self._header["times"]) < 2 else ""
        paths = "checked" if self._header["paths"] else "disabled"
        return (
            f'<div class="player" style="--aspect: {self.aspect:.3g}"{auto}><canvas tabindex="0" '
            'aria-label="The scene in three dimensions"></canvas><div class="message"></div>'
            f'<div class="controls"{still}><button type="button" class="play">Play</button>'
            f'<input type="range" min="0" value="0" step="1" aria-label="frame"><output></output>'
            f'<label><input type="checkbox" {paths}> paths</label></div>'
            f'<script type="text/plain" class="data">{self.data()}</script></div>'
        )

    def data(self) -> str:
        """Returns header and arrays, compressed, as base64."""
        places, offset = [], 0
        for kind, content, count in self._arrays:
            places.append((kind, offset, count))
            offset += len(content)
        header = json.dumps({**self._header, "arrays": places, "start": 0})
        start = 4 + len(header.encode()) + 16
        start += -start % 4
        text = json.dumps({**self._header, "arrays": places, "start": start}).encode()
        head = struct.pack("<I", len(text)) + text
        content = head.ljust(start, b" ") + b"".join(content for _, content, _ in self._arrays)
        return base64.b64encode(zlib.compress(content, 9)).decode()

    def _add(self, kind: str, values: Any) -> int:
        """Adds an array, and returns its number."""
        array = np.ascontiguousarray(values, dtype=KINDS[kind])
        content = array.tobytes()
        self._arrays.append((kind, content + bytes(-len(content) % 4), array.size))
        return len(self._arrays) - 1

    def _surface(self, surface: MovingSurface) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": surface.name,
            "lit": bool(surface.lit),
            "faces": self._add("I", surface.faces),
            "vertices": self._add("I", surface.vertices),
            "colors": self._add("B", np.round(np.clip(surface.colors, 0, 1) * 255)),
        }
        if surface.axes is not None and surface.origin is not None:
            axes, origin = surface.axes[:: self.stride], surface.origin[:: self.stride]
            frames = max(len(axes), len(origin))
            poses = np.concatenate(
                [np.broadcast_to(axes.reshape(-1, 9), (frames, 9)), np.broadcast_to(origin, (frames, 3))], 1
            )
            made |= {"points": self._add("f", surface.points), "poses": self._add("f", poses)}
        else:
            made |= self._deforming(surface.points[:: self.stride])
        if surface.texture is not None:
            pixels = np.round(surface.texture[::-1] * 255)  # WebGL has the bottom row first
            made["texture"] = {
                "size": surface.texture.shape[:2],
                "pixels": self._add("B", pixels),
                "uv": self._add("f", surface.uv),
            }
        return made

    def _deforming(self, points: np.ndarray) -> dict[str, Any]:
        """Positions [T, V, 3] as 16-bit steps of the bounding box, each frame as the difference from the one before."""
        low, high = points.min((0, 1)), points.max((0, 1))
        step = np.maximum(high - low, 1e-9) / LEVELS
        codes = np.round((points - low) / step).astype(np.uint16)
        differences = codes.copy()
        differences[1:] -= codes[:-1]  # modulo 2^16
        return {
            "codes": self._add("H", differences),
            "frames": len(points),
            "low": low.tolist(),
            "step": step.tolist(),
        }

    def _paths(self, surfaces: Sequence[MovingSurface]) -> list[dict[str, Any]]:
        centers = [surface.centers for surface in surfaces if not surface.static and len(surface.centers) > 1]
        return [
            {"places": self._add("f", places), "color": PATH_COLORS[k % len(PATH_COLORS)]}
            for k, places in enumerate(centers)
        ]


def _stride(surfaces: Sequence[MovingSurface]) -> int:
    """Returns the step between frames at which the positions of deforming surfaces stay within the limit."""
    size = sum(6 * len(s.points) * s.points.shape[-2] for s in surfaces if s.axes is None)
    return max(1, -(-size // MAX_BYTES))


def view_of(scene: Scene, surfaces: Sequence[MovingSurface]) -> dict[str, Any]:
    """Returns eye, target [m] and vertical field of view [degrees] of the scene's camera, or of one that sees all."""
    moving = [s.frame(k) for s in surfaces if not s.static for k in (0, 10**9)]
    points = np.concatenate(moving or [s.frame(0) for s in surfaces] or [np.zeros((1, 3))])
    low, high = points.min(0), points.max(0)
    center, radius = (low + high) / 2, max(float(np.linalg.norm(high - low)) / 2, 1e-3)
    if scene.camera is None:
        back = np.array([0.45, 0.35, 0.82])
        distance = 1.3 * radius / np.sin(np.radians(FOV / 2))
        return {"eye": (center + distance * back).tolist(), "target": center.tolist(), "fov": FOV}
    matrix, eyes = projection(scene.camera, (1000, 1000), torch.float64, torch.device("cpu"))
    rows = matrix.reshape(-1, 3, 3)[0].double().numpy()
    eye, forward = eyes.reshape(-1, 3)[0].double().numpy(), rows[2]
    focal = float(np.linalg.norm(np.cross(forward, rows[1])))  # rows[1] = fy down + cy forward
    depth = max(float((center - eye) @ forward), 0.1 * radius)
    fov = float(np.degrees(2 * np.arctan(500.0 / focal)))
    return {"eye": eye.tolist(), "target": (eye + depth * forward).tolist(), "fov": min(max(fov, 5.0), 120.0)}


def player_script() -> str:
    """Returns the script that draws all players of a page."""
    return (HERE / "player.js").read_text(encoding="utf-8")


def player_style() -> str:
    """Returns the style of players."""
    return (HERE / "player.css").read_text(encoding="utf-8")


def script_element() -> str:
    """Returns the script as an HTML element."""
    return f"<script>{player_script()}</script>"


def script_source() -> str:
    """Returns the script's source for a Content-Security-Policy: its hash, so that no other script runs."""
    digest = hashlib.sha256(player_script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def frame_element(content: str, height: int, title: str) -> str:
    """Returns HTML as a frame of its own, without access to the page around it and to the network.

    Args:
        content: HTML of the body.
        height: Height of the frame [px].
        title: Its description.
    """
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_source()}; img-src data:"
    page = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>body {{ margin: 0; font: 14px system-ui, sans-serif; }} {player_style()}"
        ".player canvas { max-height: none; }</style>"
        f"{content}{script_element()}"
    )
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="{escape(title)}" '
        f'style="width: 100%; max-width: 640px; height: {height}px; border: 0"></iframe>'
    )
