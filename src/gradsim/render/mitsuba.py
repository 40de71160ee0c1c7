"""Photorealistic images by path tracing with Mitsuba 3 (Jakob et al., https://mitsuba-renderer.org)."""

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

from gradsim.render.job import ATTRIBUTE
from gradsim.render.renderer import Frames, Renderer
from gradsim.render.tracer_scene import TracerScene, TracerSurface, of_world, tracer_scene
from gradsim.scene.errors import InvalidInput, MissingExtra, OutOfRange, WrongType
from gradsim.scene.quantity import unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

VARIANT = "scalar_rgb"
LONG = 3e7  # samples of a video from which a progress bar is shown
SQUARE = 1e-6  # largest relative difference of fx and fy: Mitsuba's pixels are square
MAX_SPECULAR = 0.5  # largest weight of the specular lobe


@dataclass(frozen=True)
class Mitsuba(Renderer):
    """Path tracing: shadows, interreflection and soft ambient light. For targets and illustrations.

    Camera, colours, textures and lights have the same meaning as for the other renderers: silhouettes and unlit colours
    agree with `gs.Exact()` up to noise, and so does a convex diffuse body in directional light. Global illumination is
    new, and these differ:

    - An ambient light shines from all directions, and is occluded by other surfaces.
    - A point light falls off with the square of the distance. It is as bright as in the other renderers at the mean
      position of the bodies at the trajectory's first frame.
    - Smooth shading interpolates normals, not colours. Highlights are about as wide and as strong as `Look` specifies,
      and reflect the surroundings too. `Look.diffuse` also scales the reflected ambient light.
    - Unlit surfaces (`lit=False`, or all surfaces of a scene without lights) show their colour and are black to others.
    - Both sides of all surfaces are visible.

    It needs the extra `mitsuba`, runs on all cores in single precision, is deterministic, and has no gradient: it
    raises if one is required.

    Example:
        `gs.render(scene, trajectory, (32, 32), gs.Mitsuba(samples=256))`

    Args:
        samples: Light paths a pixel, rounded up to fill a grid such as 8 x 8. Noise decreases with their square root,
            and faster along silhouettes.
        bounces: Most reflections of a light path; 1 for direct light only.
        seed: Of the random numbers.
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
        """Returns what `gs.render` returns, without gradient.

        Raises:
            MissingExtra: Mitsuba is not installed.
            InvalidInput: The scene or the trajectory requires gradients, or has what Mitsuba cannot render.
        """
        with _mitsuba() as mi:
            _refuse_gradient(scene, trajectory)
            with torch.no_grad():
                traced = tracer_scene(scene, trajectory, size, frames)
                triangles = traced.triangles
                background = triangles.background.expand(len(triangles.vertices), *size, 3)
                video = torch.cat([background, torch.zeros_like(background[..., :1])], -1)
                depths = torch.full_like(video[..., 0], torch.inf)
                for b in _progress(len(video), len(video) * math.prod(size) * self.samples):
                    window = _window(triangles.vertices[b], size, triangles.near)
                    if all(window):
                        where = (b, *(slice(side.start, side.stop) for side in window))
                        color, cover, depths[where] = self._trace(mi, traced, b, size, window, depth=depth)
                        video[where] = torch.cat([color + (1.0 - cover) * background[where], cover], -1)
        video = (video if alpha else video[..., :3]).unflatten(0, traced.shape)
        return (video, depths.unflatten(0, traced.shape)) if depth else video

    def _trace(
        self, mi: Any, traced: TracerScene, b: int, size: tuple[int, int], window: tuple[range, range], *, depth: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Premultiplied colours [h, w, 3], coverage [h, w, 1] and depth [m], [h, w].

        There is one pass for lit surfaces and one for unlit ones, which show their albedo.
        """
        world, frame = divmod(b, traced.shape[-1])
        seed = int(np.random.SeedSequence([self.seed, world, traced.frame_numbers[frame]]).generate_state(1)[0])
        sensor = _sensor(mi, traced, b, size, window)
        passes = sorted({surface.lit for surface in traced.surfaces})
        side = math.isqrt(self.samples)
        sensor["sampler"] = {
            "type": "multijitter",
            "sample_count": side * -(-self.samples // side),
            "jitter": len(passes) == 1,  # without jitter both passes sample the same points of a pixel
        }
        colors = []
        for lit in passes:
            integrator: dict[str, Any] = {"type": "depth"}  # the cheapest one with coverage
            if lit:
                integrator = {"type": "path", "max_depth": self.bounces + 1, "hide_emitters": True}
            outputs = ["color:albedo"] * (not lit) + ["place:position"] * depth
            if outputs:
                integrator = {"type": "aov", "aovs": ",".join(outputs), "image": integrator}
            contents = {**_shapes(mi, traced, b, lit=lit), **(_emitters(traced, world) if lit else {})}
            view = mi.load_dict({"type": "scene", "sensor": sensor, "integrator": integrator, **contents})
            image = torch.from_numpy(np.array(mi.render(view, seed=seed))).to(traced.triangles.vertices)
            colors.append(image[..., :3] if lit else image[..., 4:7])
        cover = image[..., 3]
        distance = image[..., -3:] @ traced.camera(b)[0][2] / cover
        return sum(colors, torch.zeros_like(colors[0])), cover[..., None], torch.where(cover > 0, distance, torch.inf)


@contextmanager
def _mitsuba() -> Iterator[Any]:
    """The module with its variant set; afterwards the variant is reset to what it was."""
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
    looks = [unwrap(value) for _, value, _ in scene.view_quantities()]
    required = any(isinstance(value, torch.Tensor) and value.requires_grad for value in motions + looks)
    if required and torch.is_grad_enabled():
        remedy = "has no gradient, but its input requires one: render under torch.no_grad(), or with gs.Exact()"
        raise InvalidInput("renderer", "Mitsuba()", remedy)


def _progress(count: int, samples: float) -> Any:
    """Iterates over frames, with a progress bar on a terminal if there are many samples."""
    console = Console(stderr=True)
    silent = not console.is_terminal or samples < LONG
    return track(range(count), "Path tracing", console=console, transient=True, disable=silent)


def _window(vertices: torch.Tensor, size: tuple[int, int], near: float) -> tuple[range, range]:
    """Rows and columns of pixels that surfaces can cover, from vertices in homogeneous pixels [V, 3]."""
    if bool((vertices[:, 2] <= near).any()):
        return range(size[0]), range(size[1])
    pixels = vertices[:, :2] / vertices[:, 2:]
    low, high = pixels.amin(0).floor() - 1, pixels.amax(0).ceil() + 1  # a pixel more, for rounding
    columns, rows = (range(int(low[k].clamp(0, n)), int(high[k].clamp(0, n))) for k, n in enumerate(size[::-1]))
    return rows, columns


def _sensor(mi: Any, traced: TracerScene, b: int, size: tuple[int, int], window: tuple[range, range]) -> dict[str, Any]:
    """The camera. Mitsuba's x axis points to the left and its y axis up."""
    axes, (fx, fy, cx, cy) = traced.camera(b)
    if abs(fx - fy) > SQUARE * fx:
        remedy = "Mitsuba() needs square pixels: fx = fy at the size of the image"
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
        "near_clip": traced.triangles.near,
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


def _emitters(traced: TracerScene, world: int) -> dict[str, Any]:
    """Lights. The radiance of a diffuse surface is its colour / pi times the irradiance."""
    if traced.lights is None:
        return {}
    lights = traced.lights
    directions, positions = (of_world(vectors, world)[0] for vectors in (lights.directions, lights.positions))
    colors = math.pi * of_world(lights.colors, world)
    found: dict[str, Any] = {"sky": {"type": "constant", "radiance": _rgb(of_world(lights.ambient, world))}}
    for k, direction in enumerate(directions):
        light = {"type": "directional", "direction": (-direction).tolist(), "irradiance": _rgb(colors[k])}
        found[f"directional{k}"] = light
    for k, position in enumerate(positions):
        intensity = colors[len(directions) + k] * of_world(traced.light_distances, world)[k] ** 2
        found[f"point{k}"] = {"type": "point", "position": position.tolist(), "intensity": _rgb(intensity)}
    return found


def _rgb(color: torch.Tensor) -> dict[str, Any]:
    return {"type": "rgb", "value": color.tolist()}


def _shapes(mi: Any, traced: TracerScene, b: int, *, lit: bool) -> dict[str, Any]:
    """The surfaces: lit (unlit) ones in their colours, the others black."""
    vertices, attributes = traced.vertices(b), traced.triangles.attributes[b]
    shapes = {}
    for k, surface in enumerate(traced.surfaces):
        corners = attributes[surface.rows]
        colors = corners[:, :3] * float(surface.lit == lit)
        properties = mi.Properties()
        properties["material"] = mi.load_dict(_material(mi, traced, surface, colors, b // traced.shape[-1]))
        textured = surface.texture is not None
        mesh = mi.Mesh(surface.name, len(corners), len(corners) // 3, properties, surface.lit, textured)
        mesh.add_attribute("vertex_color", 3, _numbers(colors))
        data = mi.traverse(mesh)
        data["faces"] = np.arange(len(corners), dtype=np.uint32)
        data["vertex_positions"] = _numbers(vertices[surface.vertices])
        if surface.lit:
            normals = surface.groups.normals(vertices[None, surface.vertex_range])[0]
            data["vertex_normals"] = _numbers(normals[surface.normals])
        if textured:
            uv = corners[:, ATTRIBUTE.uv :] * corners.new_tensor([1.0, -1.0])  # Mitsuba's v axis points down
            data["vertex_texcoords"] = _numbers(uv)
        data.update()
        shapes[f"surface{k}"] = mesh
    return shapes


def _numbers(x: torch.Tensor) -> np.ndarray:
    return x.cpu().numpy().astype(np.float32).ravel()


def _material(mi: Any, traced: TracerScene, surface: TracerSurface, colors: torch.Tensor, world: int) -> dict[str, Any]:
    """Diffuse in the surface's colours, blended with a rough conductor if there are highlights."""
    diffuse, weight, roughness = 1.0, 0.0, 1.0
    if surface.lit:
        diffuse, specular, shininess = (
            float(of_world(traced.batcher.per_world(getattr(surface.look, name, default)), world))
            for name, default in (("diffuse", 1.0), ("specular", 0.0), ("shininess", 1.0))
        )
        # A lobe of roughness a is about as wide as (n . h)^(2 / a^2 - 2), and 1 / (4 a^2) as bright as white paper.
        roughness = math.sqrt(2.0 / (shininess + 2.0))
        weight = min(4.0 * roughness**2 * specular, MAX_SPECULAR)
        diffuse /= 1.0 - weight
    reflectance: dict[str, Any] = {"type": "mesh_attribute", "name": "vertex_color", "scale": diffuse}
    if surface.texture is not None:
        if bool((colors != colors[0]).any()):
            remedy = "Mitsuba() renders a texture with a single colour: leave out vertex_colors and face_colors"
            raise InvalidInput(f"{surface.name}.look.texture", "given with colours that vary", remedy)
        texels = (surface.texture * colors[0] * diffuse).cpu().numpy().astype(np.float32)
        reflectance = {"type": "bitmap", "bitmap": mi.Bitmap(texels), "raw": True}
    matt: dict[str, Any] = {"type": "diffuse", "reflectance": reflectance}
    if weight == 0.0:
        return {"type": "twosided", "bsdf": matt}
    gloss = {"type": "roughconductor", "material": "none", "alpha": roughness}
    return {"type": "twosided", "bsdf": {"type": "blendbsdf", "weight": weight, "diffuse": matt, "specular": gloss}}
