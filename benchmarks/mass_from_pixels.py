"""Accuracy of a cube's mass estimated from 30 frames of 128 x 128 pixels that another renderer made.

A cube with six colours, without lights, flies and spins after a known push. Its mass is estimated with each of the
differentiable renderers, from three videos:

- 32 x 32 samples a pixel on a regular grid, by a ray caster in this file. It uses neither triangles nor gradsim's
  camera: it intersects rays with the slabs between opposite sides of the cube.
- Mitsuba's, with 256 samples a pixel and a box filter; needs pip install 'gradsim[mitsuba]'.
- `gs.Exact`'s own, rounded to 8 bits.

The fit is Gauss-Newton in log mass from 5.0 kg, in float64. It starts with few frames, because the cube spins fast,
and with both videos blurred by 12 pixels; it ends with all frames, unblurred. The gradient is the adjoint through the
renderer and the physics; the curvature comes from central differences. The loss of `Exact` contains colours only; that
of SoftRas and DIB-R contains the coverage too, which they need.

The remaining error is that of the video, and its effect depends on the scene. Coverage from a grid of 32 x 32 samples
is a step function of the position. Linearized about the true value, for eight masses from 3.5 to 3.85 kg, the videos
of this scene shift the mass by 6e-8 (root mean square; at most 1e-7), and with 64 x 64 samples, for two of the masses,
by 1e-8 and 2e-8. A high throw and a fast spin make the scene sensitive to the mass: in slower scenes the shift was
2e-7 to 3e-7, more than the allowed error.

    python -m benchmarks.mass_from_pixels [--json report.json]

The exit code is 1 if the error with `Exact` is larger than allowed.
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
from benchmarks.report import Progress
from benchmarks.timing import this_machine

TRUE_MASS, INITIAL_GUESS = 3.7, 5.0  # [kg]
FRAMES, FPS, SIZE = 30, 30.0, (128, 128)
EDGE = 0.5  # of the cube [m]
EYE, TARGET, FOV = np.array([0.85, 0.8, 2.8]), np.array([0.35, 0.55, 0.0]), 42.0  # [m], [m], [degrees]
GRID = 32  # samples along a pixel's edge
SAMPLES = 256  # of Mitsuba, a pixel
BACKGROUND = (0.05, 0.1, 0.15)
COLORS = np.array(  # of the sides at -x, +x, -y, +y, -z, +z
    [[0.9, 0.2, 0.2], [0.2, 0.8, 0.3], [0.2, 0.3, 0.9], [0.9, 0.8, 0.2], [0.8, 0.3, 0.8], [0.3, 0.8, 0.9]]
)
LEVELS = ((12.0, 5), (6.0, 5), (3.0, 5), (1.5, 5), (0.0, 5), (0.0, 10), (0.0, 30))  # blur [px], number of frames
STEPS = 4  # on each level
LAST_STEPS = 12  # on the last, at most
MAX_STEP = 0.35  # in log mass


@dataclass(frozen=True)
class Method:
    """A renderer and its options in the fit."""

    name: str
    renderer: Any
    alpha: bool  # whether the loss contains the coverage too
    difference: float  # step of log mass for the curvature; large for DIB-R, whose colours are discontinuous


METHODS = (
    Method("Exact", gs.Exact(), alpha=False, difference=1e-5),
    Method("SoftRas", gs.SoftRas(), alpha=True, difference=1e-3),
    Method("DIB-R", gs.DIBR(), alpha=True, difference=1e-2),
)
ALLOWED = {"supersampled": 1e-7, "mitsuba": 1e-5, "8 bit": 1e-6}  # relative error with `Exact`


@dataclass(frozen=True)
class Row:
    """The result of one fit."""

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


def make_scene(mass: float | torch.Tensor) -> gs.Scene:
    """Returns the cube with this mass [kg]."""
    mesh = gs.meshes.box(EDGE)
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
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


def simulate(scene: gs.Scene, frames: int = FRAMES) -> gs.Trajectory:
    """Returns the motion of the cube."""
    return gs.simulate(scene, frames=frames, fps=FPS, substeps=16, integrator=gs.Midpoint())


def render_video(log_mass: torch.Tensor, method: Method, frames: int = FRAMES) -> torch.Tensor:
    """Returns the video for a log mass, [..., T, H, W, C]."""
    scene = make_scene(log_mass.exp())
    return gs.render(scene, simulate(scene, frames), SIZE, method.renderer, alpha=method.alpha)


def supersampled() -> torch.Tensor:
    """Returns the RGBA video of the true mass, by ray casting."""
    cube = simulate(make_scene(TRUE_MASS))["cube"]
    frames = zip(cube.position.numpy(), cube.rotation.numpy(), strict=True)
    return torch.from_numpy(np.stack([_cast_rays(position, _rotation_matrix(q)) for position, q in frames]))


def _rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Returns the rotation matrix of a quaternion (x, y, z, w)."""
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _cast_rays(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Returns one image, [H, W, 4]; rays are cast only where the cube's bounding sphere is visible."""
    forward = (TARGET - EYE) / np.linalg.norm(TARGET - EYE)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    height, width = SIZE
    focal = 0.5 * height / math.tan(math.radians(FOV) / 2)
    depth = (position - EYE) @ forward
    middle = np.array([(position - EYE) @ down, (position - EYE) @ right]) / depth * focal + np.array(SIZE) / 2
    reach = 1.3 * focal * 0.5 * math.sqrt(3) * EDGE / depth
    low = np.clip(np.floor(middle - reach), 0, SIZE).astype(int)
    high = np.clip(np.ceil(middle + reach), 0, SIZE).astype(int)

    # Ray directions and origin in the cube's axes; one row of pixels at a time fits in the processor's cache.
    axes, origin = np.stack([forward, down, right]) @ rotation, (EYE - position) @ rotation
    columns = ((np.arange(GRID * low[1], GRID * high[1]) + 0.5) / GRID - width / 2) / focal
    palette = np.concatenate([np.column_stack([COLORS, np.ones(6)]), [[*BACKGROUND, 0.0]]])
    image = np.tile(palette[6], (height, width, 1))
    for row in range(low[0], high[0]):
        rows = (row + (np.arange(GRID)[:, None] + 0.5) / GRID - height / 2) / focal
        side = _entry_sides([axes[0, k] + rows * axes[1, k] + columns * axes[2, k] for k in range(3)], origin)
        tiles = side.reshape(GRID, -1, GRID)
        shares = np.stack([(tiles == k).mean((0, 2)) for k in range(7)], -1)
        image[row, low[1] : high[1]] = shares @ palette
    return image


def _entry_sides(directions: list[np.ndarray], origin: np.ndarray) -> np.ndarray:
    """Returns the side through which each ray enters the cube, 6 for rays that miss it (slab method)."""
    entry, exit_ = np.full(directions[0].shape, -np.inf), np.full(directions[0].shape, np.inf)
    side = np.zeros(directions[0].shape, dtype=np.int8)
    for k, direction in enumerate(directions):
        low, high = (-EDGE / 2 - origin[k]) / direction, (EDGE / 2 - origin[k]) / direction
        first = np.minimum(low, high)
        side = np.where(first > entry, np.where(low < high, 2 * k, 2 * k + 1), side)
        np.maximum(entry, first, out=entry)
        np.minimum(exit_, np.maximum(low, high), out=exit_)
    return np.where(entry < exit_, side, 6)


def mitsuba() -> torch.Tensor:
    """Returns the RGBA video of the true mass, by Mitsuba."""
    scene = make_scene(TRUE_MASS)
    return gs.render(scene, simulate(scene), SIZE, gs.Mitsuba(samples=SAMPLES), alpha=True)


def rounded() -> torch.Tensor:
    """Returns the RGBA video of the true mass, by `Exact`, rounded to 8 bits."""
    scene = make_scene(TRUE_MASS)
    return (255 * gs.render(scene, simulate(scene), SIZE, alpha=True)).round() / 255


TARGETS: dict[str, Callable[[], torch.Tensor]] = {
    "supersampled": supersampled,
    "mitsuba": mitsuba,
    "8 bit": rounded,
}


def blurred(video: torch.Tensor, width: float) -> torch.Tensor:
    """Returns a video [..., H, W, C] blurred by a Gaussian of standard deviation `width` [px], padded with black."""
    if width == 0.0:
        return video
    for dim in (-3, -2):
        pixel = torch.arange(video.shape[dim], dtype=video.dtype)
        weight = torch.exp(-0.5 * ((pixel - pixel[:, None]) / width) ** 2) / (width * math.sqrt(2 * math.pi))
        video = torch.tensordot(video, weight, ([dim], [0])).movedim(-1, dim)
    return video


def estimate_mass(method: Method, target: torch.Tensor) -> tuple[float, int]:
    """Returns the mass estimated from a video [kg], and the number of Gauss-Newton steps."""
    target = target if method.alpha else target[..., :3]
    log_mass, steps = torch.tensor(math.log(INITIAL_GUESS), dtype=torch.float64), 0
    for blur, frames in LEVELS:
        for _ in range(LAST_STEPS if frames == FRAMES else STEPS):
            with torch.no_grad():
                perturbed = log_mass + method.difference * torch.tensor([1.0, -1.0], dtype=torch.float64)
                ahead, behind = render_video(perturbed, method, frames)
                derivative = blurred((ahead - behind) / (2 * method.difference), blur)
            leaf = log_mass.clone().requires_grad_()
            loss = 0.5 * blurred(render_video(leaf, method, frames) - target[:frames], blur).square().sum()
            (gradient,) = torch.autograd.grad(loss, leaf)
            step = -float(gradient / derivative.square().sum())
            log_mass += max(-MAX_STEP, min(MAX_STEP, step))
            steps += 1
            if abs(step) < 1e-13:
                break
    return math.exp(log_mass), steps


def measure(progress: Progress) -> tuple[list[Row], list[str]]:
    """Returns all fits, and notes on the videos."""
    rows: list[Row] = []
    notes: list[str] = []
    for name, make in TARGETS.items():
        progress(f"the video '{name}'")
        start = perf_counter()
        try:
            target = make()
        except gs.MissingExtra as missing:
            notes.append(f"{name} skipped: {missing}")
            continue
        notes.append(f"{name}: rendered in {perf_counter() - start:.1f} s")
        for method in METHODS:
            progress(f"the video '{name}' with {method.name}")
            start = perf_counter()
            mass, steps = estimate_mass(method, target)
            allowed = ALLOWED[name] if method.name == "Exact" else None
            error = abs(mass / TRUE_MASS - 1.0)
            rows.append(Row(name, method.name, mass, error, allowed, steps, perf_counter() - start))
    return rows, notes


def table(rows: list[Row], notes: list[str]) -> Table:
    size = f"{SIZE[0]} x {SIZE[1]}"
    title = f"Mass of a cube from {FRAMES} frames of {size}: true {TRUE_MASS} kg, initial guess {INITIAL_GUESS} kg"
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
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
