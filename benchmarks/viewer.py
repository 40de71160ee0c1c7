"""Frames per second of a scrub through a large deforming mesh in the viewer: sent, applied in the page, and drawn.

The page applies what has arrived before it draws: it decodes the vertices, computes normals and copies both to buffers.
Without a graphics card chromium draws in software and so slows this down. A second scrub with draw calls that do
nothing therefore measures the application alone.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import gradsim as gs
from benchmarks.report import Progress, Requirement, Section, footer, new_table, no_progress
from benchmarks.timing import Machine, this_machine
from gradsim.scene.errors import MissingExtra
from gradsim.scene.trajectory import BodyMotion, Trajectory
from gradsim.view.viewer import Viewer

CELLS, FRAMES, FPS = 100, 100, 30.0  # 2 x 100 x 100 faces
SECONDS = 6.0  # of a scrub
RATE = 60.0  # of movements of the slider [1/s]
MIN_RATE = 20.0  # required [1/s]
WINDOW = (900, 600)  # [px]
# Counts copies of positions to the graphics card, which three.js makes once for each new set of vertices.
COUNT_UPLOADS = f"""
window.uploads = 0; window.uploadSeconds = 0;
for (const name of ["bufferData", "bufferSubData"]) {{
  const prototype = WebGL2RenderingContext.prototype, original = prototype[name];
  prototype[name] = function (...given) {{
    const data = given.find(one => one instanceof Float32Array);
    const begin = performance.now();
    const result = original.apply(this, given);
    if (data && data.length === {3 * (CELLS + 1) ** 2}) {{
      window.uploads += 0.5;  // positions and normals
      window.uploadSeconds += (performance.now() - begin) / 1000;
    }}
    return result;
  }};
}}"""
DRAW_NOTHING = """
for (const name of ["drawElements", "drawArrays", "drawElementsInstanced", "drawArraysInstanced"])
  WebGL2RenderingContext.prototype[name] = () => {};"""


@dataclass(frozen=True)
class ScrubRates:
    """Rates of one scrub [1/s].

    Args:
        draws: Whether the page drew.
        sent: Frames that the server handed to the connection.
        applied: Frames that the page copied to buffers.
        upload_ms: Time of these copies per frame [ms].
    """

    draws: bool
    sent: float
    applied: float
    upload_ms: float


def waving_sheet() -> tuple[gs.Scene, Trajectory]:
    """Returns a sheet of 20,000 faces and a wave through it, 100 frames; nothing is simulated."""
    mesh = gs.meshes.grid(2.0, CELLS)
    rest = torch.tensor(mesh.vertices)
    moment = torch.arange(FRAMES, dtype=torch.float64) / FPS
    phase = 4.0 * rest[:, 0] - 3.0 * moment[:, None]
    vertices = rest.expand(FRAMES, -1, -1) + torch.stack([0 * phase, 0.15 * phase.sin(), 0 * phase], -1)
    sheet = gs.Cloth("sheet", mesh, mass=1.0, look=gs.Look(color=(0.3, 0.5, 0.8)))
    scene = gs.Scene([sheet], camera=gs.Camera(eye=(0.0, 1.5, 3.0), target=(0.0, 0.0, 0.0)))
    motion = BodyMotion(vertices, torch.zeros_like(vertices))
    return scene, Trajectory(moment, {"sheet": motion}, {}, scene=scene)


def measure_scrubs(progress: Progress = no_progress) -> tuple[list[ScrubRates], Machine]:
    """Scrubs with and without drawing.

    Raises:
        MissingExtra: viser or chromium is not installed.
    """
    chromium: Any = importlib.import_module("tests.footage.chromium")
    if chromium.CHROMIUM is None:
        raise MissingExtra("python -m benchmarks viewer (with chromium)", "view")
    scene, trajectory = waving_sheet()
    viewer = gs.view(scene, trajectory, port=8290)
    found = []
    try:
        for draws in (True, False):
            progress(f"scrubbing {'with' if draws else 'without'} drawing")
            with tempfile.TemporaryDirectory() as folder, chromium.open_browser(Path(folder)) as page:
                page.open(viewer.url, *WINDOW)
                page.wait_until("document.querySelector('canvas') !== null", 60)
                page.evaluate(COUNT_UPLOADS + ("" if draws else DRAW_NOTHING))
                time.sleep(5.0)  # the page has received the scene
                found.append(_scrub(viewer, page, draws))
    finally:
        viewer.stop()
    return found, this_machine()


def _scrub(viewer: Viewer, page: Any, draws: bool) -> ScrubRates:
    read = "({uploads: window.uploads, seconds: window.uploadSeconds})"
    before = page.evaluate(read)
    begin, sent = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begin) < SECONDS:
        viewer.controls.frame = sent % FRAMES
        viewer.server.flush()
        sent += 1
        time.sleep(max(0.0, sent / RATE - elapsed))
    after = page.evaluate(read)
    seconds = time.perf_counter() - begin
    applied = after["uploads"] - before["uploads"]
    upload = 1000 * (after["seconds"] - before["seconds"]) / max(applied, 1)
    return ScrubRates(draws, sent / seconds, applied / seconds, upload)


def section(results: tuple[list[ScrubRates], Machine]) -> Section:
    """Returns the table, and the required values."""
    rates, machine = results
    table = new_table("Scrub through 20,000 faces", ("page", "sent /s", "applied /s", "copy to buffers [ms]"))
    for own in rates:
        name = "draws in software" if own.draws else "draws nothing"
        table.add_row(name, f"{own.sent:.1f}", f"{own.applied:.1f}", f"{own.upload_ms:.2f}")
    table.caption = footer(machine)
    applied = next(own.applied for own in rates if not own.draws)
    requirement = Requirement(
        f"{MIN_RATE:.0f} frames a second of 20,000 faces sent and applied, apart from drawing",
        f"{applied:.1f}",
        applied >= MIN_RATE,
    )
    data = {"scrubs": [asdict(own) for own in rates], "machine": asdict(machine)}
    return Section("Scrub through 20,000 faces", table, data, (requirement,))
