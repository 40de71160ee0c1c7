"""How exactly does a video weigh a cube? Its mass from 30 frames of 128 x 128 pixels that another renderer made.

A cube of six colours, without lights, flies and spins after a known push. What it weighs is sought with each of the
differentiable renderers, from three videos:

- 32 x 32 points a pixel on a regular grid, by a ray caster in this file. It knows neither triangles nor gradsim's
  camera: rays meet the slabs between opposite sides of the cube.
- Mitsuba's, 256 points a pixel and a box filter; needs pip install 'gradsim[mitsuba]'.
- `gs.Exact`'s own, rounded to 8 bits.

The fit: Gauss-Newton in log mass from 5.0 kg, in float64. It starts with few frames, because the cube spins fast, and
with both videos blurred by 12 pixels, and ends with all frames as they are. The gradient is the adjoint through the
renderer and the physics; the curvature comes from central differences. `Exact` sees colours alone; SoftRas and DIB-R,
which need it, the coverage as well.

What is left is the video's own error, and how much it matters depends on the scene. A grid of 32 x 32 points steps
where the true coverage slides. Linearized about the truth, for eight masses from 3.5 to 3.85 kg, its videos of this
scene move the mass by 6e-8 (root mean square; 1e-7 at most), and with 64 x 64 points, for two of them, by 1e-8 and
2e-8. The scene was made sensitive for that reason, by a high throw and a fast spin: in slower ones it was 2e-7 to 3e-7,
above what is allowed.

    python benchmarks/mass_from_pixels.py [--json report.json]

The exit code is 1 if `Exact` misses what is allowed.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import gradsim as gs
from gradsim.bench.timing import this_machine

TRUTH, GUESS = 3.7, 5.0  # [kg]
FRAMES, FPS, SIZE = 30, 30.0, (128, 128)
EDGE = 0.5  # of the cube [m]
EYE, TARGET, FOV = np.array([0.85, 0.8, 2.8]), np.array([0.35, 0.55, 0.0]), 42.0  # [m], [m], [degrees]
GRID = 32  # points along a pixel's edge
SAMPLES = 256
BACKGROUND = (0.05, 0.1, 0.15)
COLORS = np.array(  # of the sides at -x, +x, -y, +y, -z, +z
    [[0.9, 0.2, 0.2], [0.2, 0.8, 0.3], [0.2, 0.3, 0.9], [0.9, 0.8, 0.2], [0.8, 0.3, 0.8], [0.3, 0.8, 0.9]]
)
LEVELS = ((12.0, 5), (6.0, 5), (3.0, 5), (1.5, 5), (0.0, 5), (0.0, 10), (0.0, 30))  # blur [px], and how many frames
STEPS = 4  # on each level
LAST_STEPS = 12  # on the last, at most
FAR = 0.35  # longest step in log mass


@dataclass(frozen=True)
class Method:
    """A renderer to fit with."""

    name: str
    renderer: Any
    alpha: bool  # whether the loss sees the coverage too
    difference: float  # of log mass, for the curvature; DIB-R's colours jump, and a large one sees their mean slope


METHODS = (
    Method("Exact", gs.Exact(), alpha=False, difference=1e-5),
    Method("SoftRas", gs.SoftRas(), alpha=True, difference=1e-3),
    Method("DIB-R", gs.DIBR(), alpha=True, difference=1e-2),
)
ALLOWED = {"supersampled": 1e-7, "mitsuba": 1e-5, "8 bit": 1e-6}  # relative errors, with `Exact`


@dataclass(frozen=True)
class Row:
    """One fit."""

    target: str
    renderer: str
    mass: float  # [kg]
    error: float  # relative
    allowed: float | None
    steps: int
    seconds: float

    @property
    def missed(self) -> bool:
        return self.allowed is not None and not self.error <= self.allowed


def world(mass: float | torch.Tensor) -> gs.Scene:
    mesh = gs.meshes.box(EDGE)
    normal = np.cross(*(mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2)))
    axis = np.abs(normal).argmax(1)
    side = 2 * axis + (np.take_along_axis(normal, axis[:, None], 1)[:, 0] > 0)
    cube = gs.Rigid(
        "cube",
        mesh,
        mass=mass,
        position=(0.0, 0.0, 0.0),
        rotation=(0.2, 0.3, 0.1, math.sqrt(0.86)),
        angular_velocity=(1.0, 2.0, -0.5),
        pushes=[gs.Push(impulse=(2.5, 17.5, 0.5), point=(0.25, -0.25, 0.25))],
        look=gs.Look(face_colors=COLORS[side]),
    )
    camera = gs.Camera(eye=EYE, target=TARGET, fov=FOV)
    return gs.Scene([cube], camera=camera, lights=(), background=BACKGROUND)


def move(scene: gs.Scene, frames: int = FRAMES) -> gs.Trajectory:
    return gs.simulate(scene, frames=frames, fps=FPS, substeps=16, integrator=gs.Midpoint())


def film(log_mass: torch.Tensor, method: Method, frames: int = FRAMES) -> torch.Tensor:
    scene = world(log_mass.exp())
    return gs.render(scene, move(scene, frames), SIZE, method.renderer, alpha=method.alpha)


def supersampled() -> torch.Tensor:
    """The true video, RGBA, by casting rays."""
    cube = move(world(TRUTH))["cube"]
    frames = zip(cube.position.numpy(), cube.rotation.numpy(), strict=True)
    return torch.from_numpy(np.stack([_cast(place, _axes(quaternion)) for place, quaternion in frames]))


def _axes(quaternion: np.ndarray) -> np.ndarray:
    """A body's axes in the world, as columns."""
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _cast(place: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """One image, [H, W, 4]. Rays are drawn only where the sphere about the cube may be seen."""
    forward = (TARGET - EYE) / np.linalg.norm(TARGET - EYE)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    height, width = SIZE
    focal = 0.5 * height / math.tan(math.radians(FOV) / 2)
    depth = (place - EYE) @ forward
    middle = np.array([(place - EYE) @ down, (place - EYE) @ right]) / depth * focal + np.array(SIZE) / 2
    reach = 1.3 * focal * 0.5 * math.sqrt(3) * EDGE / depth
    low = np.clip(np.floor(middle - reach), 0, SIZE).astype(int)
    high = np.clip(np.ceil(middle + reach), 0, SIZE).astype(int)

    # Rays and their start in the cube's own axes; a row of pixels at a time stays in the processor's cache.
    turned, start = np.stack([forward, down, right]) @ axes, (EYE - place) @ axes
    columns = ((np.arange(GRID * low[1], GRID * high[1]) + 0.5) / GRID - width / 2) / focal
    palette = np.concatenate([np.column_stack([COLORS, np.ones(6)]), [[*BACKGROUND, 0.0]]])
    image = np.tile(palette[6], (height, width, 1))
    for row in range(low[0], high[0]):
        rows = (row + (np.arange(GRID)[:, None] + 0.5) / GRID - height / 2) / focal
        side = _entered([turned[0, k] + rows * turned[1, k] + columns * turned[2, k] for k in range(3)], start)
        tiles = side.reshape(GRID, -1, GRID)
        shares = np.stack([(tiles == k).mean((0, 2)) for k in range(7)], -1)
        image[row, low[1] : high[1]] = shares @ palette
    return image


def _entered(ray: list[np.ndarray], start: np.ndarray) -> np.ndarray:
    """Side of the cube through which rays come in, 6 for those that miss it: they leave one slab before they are in
    all three."""
    entry, leave = np.full(ray[0].shape, -np.inf), np.full(ray[0].shape, np.inf)
    side = np.zeros(ray[0].shape, dtype=np.int8)
    for k, along in enumerate(ray):
        low, high = (-EDGE / 2 - start[k]) / along, (EDGE / 2 - start[k]) / along
        first = np.minimum(low, high)
        side = np.where(first > entry, np.where(low < high, 2 * k, 2 * k + 1), side)
        np.maximum(entry, first, out=entry)
        np.minimum(leave, np.maximum(low, high), out=leave)
    return np.where(entry < leave, side, 6)


def mitsuba() -> torch.Tensor:
    scene = world(TRUTH)
    return gs.render(scene, move(scene), SIZE, gs.Mitsuba(samples=SAMPLES), alpha=True)


def rounded() -> torch.Tensor:
    scene = world(TRUTH)
    return (255 * gs.render(scene, move(scene), SIZE, alpha=True)).round() / 255


TARGETS: dict[str, Callable[[], torch.Tensor]] = {
    "supersampled": supersampled,
    "mitsuba": mitsuba,
    "8 bit": rounded,
}


def blurred(video: torch.Tensor, width: float) -> torch.Tensor:
    """A video [..., H, W, C] under a Gaussian of that standard deviation [px], black around it."""
    if width == 0.0:
        return video
    for dim in (-3, -2):
        place = torch.arange(video.shape[dim], dtype=video.dtype)
        weight = torch.exp(-0.5 * ((place - place[:, None]) / width) ** 2) / (width * math.sqrt(2 * math.pi))
        video = torch.tensordot(video, weight, ([dim], [0])).movedim(-1, dim)
    return video


def weigh(method: Method, target: torch.Tensor) -> tuple[float, int]:
    """The mass that explains a video [kg], and the steps it took."""
    target = target if method.alpha else target[..., :3]
    log_mass, steps = torch.tensor(math.log(GUESS), dtype=torch.float64), 0
    for blur, frames in LEVELS:
        for _ in range(LAST_STEPS if frames == FRAMES else STEPS):
            with torch.no_grad():
                either = log_mass + method.difference * torch.tensor([1.0, -1.0], dtype=torch.float64)
                ahead, behind = film(either, method, frames)
                slope = blurred((ahead - behind) / (2 * method.difference), blur)
            here = log_mass.clone().requires_grad_()
            loss = 0.5 * blurred(film(here, method, frames) - target[:frames], blur).square().sum()
            (gradient,) = torch.autograd.grad(loss, here)
            step = -float(gradient / slope.square().sum())
            log_mass += max(-FAR, min(FAR, step))
            steps += 1
            if abs(step) < 1e-13:
                break
    return math.exp(log_mass), steps


def measure(say: Callable[[str], None]) -> tuple[list[Row], list[str]]:
    """All fits, and notes on what was left out."""
    rows: list[Row] = []
    notes: list[str] = []
    for name, make in TARGETS.items():
        say(f"the video '{name}'")
        start = perf_counter()
        try:
            target = make()
        except gs.MissingExtra as missing:
            notes.append(f"{name} left out: {missing}")
            continue
        notes.append(f"{name}: made in {perf_counter() - start:.1f} s")
        for method in METHODS:
            say(f"the video '{name}' with {method.name}")
            start = perf_counter()
            mass, steps = weigh(method, target)
            allowed = ALLOWED[name] if method.name == "Exact" else None
            error = abs(mass / TRUTH - 1.0)
            rows.append(Row(name, method.name, mass, error, allowed, steps, perf_counter() - start))
    return rows, notes


def table(rows: list[Row], notes: list[str]) -> Table:
    title = f"Mass of a cube from {FRAMES} frames of {SIZE[0]} x {SIZE[1]}: truth {TRUTH} kg, guess {GUESS} kg"
    found = Table(title=title, caption="\n".join(notes), box=SIMPLE_HEAD, caption_justify="left")
    for heading in ("target", "renderer", "relative error", "allowed", "steps", "seconds"):
        found.add_column(heading, justify="left" if heading in ("target", "renderer") else "right")
    for row in rows:
        allowed = "" if row.allowed is None else f"{row.allowed:.0e}"
        error = f"[red]{row.error:.1e}[/red]" if row.missed else f"{row.error:.1e}"
        found.add_row(row.target, row.renderer, error, allowed, f"{row.steps}", f"{row.seconds:.1f}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Mass of a moving cube from the pixels of other renderers.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    chosen = parser.parse_args()
    with Console(stderr=True).status("") as status:
        rows, notes = measure(status.update)
    Console().print(table(rows, notes))
    if chosen.json is not None:
        machine = asdict(this_machine("torch", "warp-lang", "mitsuba"))
        report = {"machine": machine, "notes": notes, "rows": [asdict(row) for row in rows]}
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
