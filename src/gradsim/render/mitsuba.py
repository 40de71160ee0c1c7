"""Photorealistic pictures by path tracing with Mitsuba 3 (Jakob et al., https://mitsuba-renderer.org)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from gradsim.render.stage import Stage, TracedSurface, of_world, stage_of
from gradsim.render.view import Frames
from gradsim.scene.errors import InvalidInput, MissingExtra, OutOfRange, WrongType
from gradsim.scene.quantity import plain
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

VARIANT = "scalar_rgb"
LONG = 3e7  # samples of a video from which on a bar shows how far it is
SQUARE = 1e-6  # by how much fx and fy may differ, relative: Mitsuba's pixels are square
STRONGEST = 0.5  # share of light that highlights take, at most


@dataclass(frozen=True)
class Mitsuba:
    """Light as it travels: shadows, light from surface to surface, soft ambient light. For targets and for pictures.

    Camera, colours, textures and lights mean what they do to the other renderers: outlines and bare colours agree with
    `gs.Exact()` up to noise, and so does a convex matt body in directed light. What the light does on its way is new,
    and these differ:

    - An ambient light shines from all directions of the sky, and what hides the sky makes darker.
    - A point light weakens with the square of the distance. It is as bright as in the other renderers at the middle of
      the bodies at the trajectory's first frame.
    - Smooth shading interpolates normals, not colours. Highlights are about as wide and as strong as `Look` asks for,
      and mirror surroundings too. `Look.diffuse` scatters less of the ambient light as well.
    - Surfaces without light (`lit=False`, or all of a scene without lights) show their bare colour, and to others they
      are black.
    - Both sides of all surfaces are seen.

    It needs the extra `mitsuba`, runs on all cores in single precision, gives the same picture each time, and has no
    gradient: where one is asked for it raises.

    Args:
        samples: Light paths a pixel, rounded up to fill a grid such as 8 x 8. Noise falls with their root, and along
            outlines faster.
        bounces: How often light may be reflected on its way; 1 for light straight from its source.
        seed: Another number gives other noise.
    """

    samples: int = 64
    bounces: int = 6
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("samples", 1), ("bounces", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise WrongType(f"Mitsuba.{name}", repr(value), "must be a whole number")
            if not low <= value < 2**31:
                raise OutOfRange(f"Mitsuba.{name}", value, f"must be from {low} to {2**31 - 1}")

    def render(
        self,
        scene: Scene,
        trajectory: Trajectory,
        size: tuple[int, int],
        frames: Frames = None,
        *,
        alpha: bool = False,
        depth: bool = False,
    ) -> Any:
        """What `gs.render` gives, without gradient.

        Raises:
            MissingExtra: Mitsuba is not installed.
            InvalidInput: The scene or the trajectory asks for gradients; or has what Mitsuba cannot show.
        """
        with _mitsuba() as mi:
            _refuse_gradient(scene, trajectory)
            with torch.no_grad():
                stage = stage_of(scene, trajectory, size, frames)
                background = stage.seen.background.expand(len(stage.seen.vertices), *size, 3)
                video = torch.cat([background, torch.zeros_like(background[..., :1])], -1)
                depths = torch.full_like(video[..., 0], torch.inf)
                for b in _progress(len(video), len(video) * math.prod(size) * self.samples):
                    window = _window(stage.seen.vertices[b], size, stage.seen.near)
                    if all(window):
                        where = (b, *(slice(side.start, side.stop) for side in window))
                        color, cover, depths[where] = self._trace(mi, stage, b, size, window, depth=depth)
                        video[where] = torch.cat([color + (1.0 - cover) * background[where], cover], -1)
        video = (video if alpha else video[..., :3]).unflatten(0, stage.shape)
        return (video, depths.unflatten(0, stage.shape)) if depth else video

    def _trace(
        self, mi: Any, stage: Stage, b: int, size: tuple[int, int], window: tuple[range, range], *, depth: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Colours of what is seen, [h, w, 3], zero where nothing is; its coverage, [h, w, 1], and depth, [h, w].

        One pass for surfaces with light and one for those without, which show what they would scatter of white light.
        """
        world, frame = divmod(b, stage.shape[-1])
        seed = int(np.random.SeedSequence([self.seed, world, stage.numbers[frame]]).generate_state(1)[0])
        sensor = _sensor(mi, stage, b, size, window)
        passes = sorted({surface.lit for surface in stage.surfaces})
        side = math.isqrt(self.samples)
        sensor["sampler"] = {
            "type": "multijitter",
            "sample_count": side * -(-self.samples // side),
            "jitter": len(passes) == 1,  # without it the points in a pixel are the same in both passes
        }
        colors = []
        for lit in passes:
            look: dict[str, Any] = {"type": "depth"}  # the cheapest that knows what is covered
            if lit:
                look = {"type": "path", "max_depth": self.bounces + 1, "hide_emitters": True}
            extra = ["color:albedo"] * (not lit) + ["place:position"] * depth
            if extra:
                look = {"type": "aov", "aovs": ",".join(extra), "image": look}
            things = {**_shapes(mi, stage, b, lit=lit), **(_emitters(stage, world) if lit else {})}
            view = mi.load_dict({"type": "scene", "sensor": sensor, "integrator": look, **things})
            image = torch.from_numpy(np.array(mi.render(view, seed=seed))).to(stage.seen.vertices)
            colors.append(image[..., :3] if lit else image[..., 4:7])
        cover = image[..., 3]
        along = image[..., -3:] @ stage.camera(b)[0][2] / cover
        return sum(colors, torch.zeros_like(colors[0])), cover[..., None], torch.where(cover > 0, along, torch.inf)


@contextmanager
def _mitsuba() -> Iterator[Any]:
    """The module with its variant set, and afterwards set back to what the user had."""
    try:
        import mitsuba as mi
    except ImportError as error:
        raise MissingExtra("gs.Mitsuba()", "mitsuba") from error
    before = mi.variant()
    mi.set_variant(VARIANT)
    try:
        yield mi
    finally:
        if before is not None:
            mi.set_variant(before)


def _refuse_gradient(scene: Scene, trajectory: Trajectory) -> None:
    motions = [value for motion in trajectory.motions.values() for value in vars(motion).values()]
    looks = [plain(value) for _, value, _ in scene.view_quantities()]
    asked = any(isinstance(value, torch.Tensor) and value.requires_grad for value in motions + looks)
    if asked and torch.is_grad_enabled():
        remedy = "has no gradient, and what it renders asks for one: render under torch.no_grad(), or with gs.Exact()"
        raise InvalidInput("renderer", "Mitsuba()", remedy)


def _progress(count: int, samples: float) -> Any:
    """The numbers of the frames, with a bar if it takes long and someone is there to see it."""
    console = Console(stderr=True)
    silent = not console.is_terminal or samples < LONG
    return track(range(count), "Tracing light", console=console, transient=True, disable=silent)


def _window(vertices: torch.Tensor, size: tuple[int, int], near: float) -> tuple[range, range]:
    """Rows and columns of pixels beyond which nothing is seen, from vertices in homogeneous pixels [V, 3]."""
    if bool((vertices[:, 2] <= near).any()):
        return range(size[0]), range(size[1])
    pixels = vertices[:, :2] / vertices[:, 2:]
    low, high = pixels.amin(0).floor() - 1, pixels.amax(0).ceil() + 1  # with a pixel of room for rounding
    columns, rows = (range(int(low[k].clamp(0, n)), int(high[k].clamp(0, n))) for k, n in enumerate(size[::-1]))
    return rows, columns


def _sensor(mi: Any, stage: Stage, b: int, size: tuple[int, int], window: tuple[range, range]) -> dict[str, Any]:
    """The camera. Mitsuba's x points to the left and its y up."""
    axes, (fx, fy, cx, cy) = stage.camera(b)
    if abs(fx - fy) > SQUARE * fx:
        remedy = "Mitsuba() needs square pixels: fx = fy at the size of the picture"
        raise InvalidInput("camera.fx/fy", f"{fx:g}, {fy:g} pixels", remedy)
    pose = np.eye(4)
    pose[:3, :3] = axes.cpu().numpy().T * (-1.0, -1.0, 1.0)
    (height, width), (rows, columns) = size, window
    return {
        "type": "perspective",
        "fov": math.degrees(2 * math.atan(width / 2 / fx)),
        "fov_axis": "x",
        "principal_point_offset_x": 0.5 - cx / width,
        "principal_point_offset_y": 0.5 - cy / height,
        "near_clip": stage.seen.near,
        "far_clip": 1e9,
        "to_world": mi.ScalarTransform4f(pose),
        "film": {
            "type": "hdrfilm",
            "width": width,
            "height": height,
            "crop_offset_x": columns.start,
            "crop_offset_y": rows.start,
            "crop_width": len(columns),
            "crop_height": len(rows),
            "pixel_format": "rgba",
            "component_format": "float32",
            "rfilter": {"type": "box"},
        },
    }


def _emitters(stage: Stage, world: int) -> dict[str, Any]:
    """Lights. A matt surface sends out its colour / pi of the light that falls onto it."""
    if stage.lights is None:
        return {}
    beams, lamps = (of_world(places, world)[0] for places in (stage.lights.beams, stage.lights.lamps))
    colors = math.pi * of_world(stage.lights.colors, world)
    found: dict[str, Any] = {"sky": {"type": "constant", "radiance": _rgb(of_world(stage.lights.ambient, world))}}
    for k, beam in enumerate(beams):
        found[f"beam{k}"] = {"type": "directional", "direction": (-beam).tolist(), "irradiance": _rgb(colors[k])}
    for k, lamp in enumerate(lamps):
        intensity = colors[len(beams) + k] * of_world(stage.reach, world)[k] ** 2
        found[f"lamp{k}"] = {"type": "point", "position": lamp.tolist(), "intensity": _rgb(intensity)}
    return found


def _rgb(color: torch.Tensor) -> dict[str, Any]:
    return {"type": "rgb", "value": color.tolist()}


def _shapes(mi: Any, stage: Stage, b: int, *, lit: bool) -> dict[str, Any]:
    """The surfaces, those with (without) light in their colours and the others black."""
    places, rows = stage.vertices(b), stage.seen.attributes[b]
    shapes = {}
    for k, surface in enumerate(stage.surfaces):
        corners = rows[surface.rows]
        colors = corners[:, :3] * float(surface.lit == lit)
        given = mi.Properties()
        given["material"] = mi.load_dict(_material(mi, stage, surface, colors, b // stage.shape[-1]))
        mesh = mi.Mesh(surface.name, len(corners), len(corners) // 3, given, surface.lit, surface.texture is not None)
        mesh.add_attribute("vertex_color", 3, _numbers(colors))
        data = mi.traverse(mesh)
        data["faces"] = np.arange(len(corners), dtype=np.uint32)
        data["vertex_positions"] = _numbers(places[surface.vertices])
        if surface.lit:
            data["vertex_normals"] = _numbers(surface.fans(places[None, surface.own])[0, surface.normals])
        if surface.texture is not None:
            data["vertex_texcoords"] = _numbers(corners[:, 6:] * corners.new_tensor([1.0, -1.0]))  # down from the top
        data.update()
        shapes[f"surface{k}"] = mesh
    return shapes


def _numbers(x: torch.Tensor) -> np.ndarray:
    return x.cpu().numpy().astype(np.float32).ravel()


def _material(mi: Any, stage: Stage, surface: TracedSurface, colors: torch.Tensor, world: int) -> dict[str, Any]:
    """Matt, in the surface's colours, and partly a rough mirror where there are highlights."""
    share, weight, roughness = 1.0, 0.0, 1.0
    if surface.lit:
        share, strength, exponent = (
            float(of_world(stage.batcher.per_world(getattr(surface.look, name, default)), world))
            for name, default in (("diffuse", 1.0), ("specular", 0.0), ("shininess", 1.0))
        )
        # A lobe of roughness a is about as wide as (n . h)^(2 / a^2 - 2), and 1 / (4 a^2) as bright as white paper.
        roughness = math.sqrt(2.0 / (exponent + 2.0))
        weight = min(4.0 * roughness**2 * strength, STRONGEST)
        share /= 1.0 - weight
    paint: dict[str, Any] = {"type": "mesh_attribute", "name": "vertex_color", "scale": share}
    if surface.texture is not None:
        if bool((colors != colors[0]).any()):
            remedy = "Mitsuba() shows a texture under one colour: leave out vertex_colors and face_colors"
            raise InvalidInput(f"{surface.name}.look.texture", "given with colours that vary", remedy)
        texels = (surface.texture * colors[0] * share).cpu().numpy().astype(np.float32)
        paint = {"type": "bitmap", "bitmap": mi.Bitmap(texels), "raw": True}
    matt: dict[str, Any] = {"type": "diffuse", "reflectance": paint}
    if weight == 0.0:
        return {"type": "twosided", "bsdf": matt}
    mirror = {"type": "roughconductor", "material": "none", "alpha": roughness}
    return {"type": "twosided", "bsdf": {"type": "blendbsdf", "weight": weight, "matt": matt, "mirror": mirror}}
