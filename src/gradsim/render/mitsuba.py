"""Photorealistic pictures by path tracing with Mitsuba 3 (Jakob et al., https://mitsuba-renderer.org)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from gradsim.render.camera import projection
from gradsim.render.normals import Fans
from gradsim.render.shading import Lighting, lighting
from gradsim.render.structure import structure_of
from gradsim.render.surfaces import drawn
from gradsim.render.triangles import Triangles
from gradsim.render.view import Frames, chosen_frames, triangles
from gradsim.render.worlds import Worlds
from gradsim.scene.errors import InvalidInput, MissingExtra, OutOfRange, WrongType
from gradsim.scene.looks import Checker, Look
from gradsim.scene.quantity import plain
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

VARIANT = "scalar_rgb"
LONG = 3e7  # samples of a video from which on a bar shows how far it is
STRONGEST = 0.5  # share of light that a coating reflects straight back, at most
SQUARE = 1e-6  # by how much fx and fy may differ, relative: Mitsuba's pixels are square


@dataclass(frozen=True)
class Mitsuba:
    """Light as it travels: shadows, light from surface to surface, soft ambient light. For targets and for pictures.

    Camera, colours, textures and lights mean what they do to the other renderers: outlines and bare colours agree with
    `gs.Exact()` up to noise, and so does a convex matt body in directed light. What the light does on its way is new,
    and these differ:

    - An ambient light shines from all directions of the sky, and what hides the sky makes darker.
    - A point light weakens with the square of the distance. It is as bright as in the other renderers at the middle of
      the bodies at the trajectory's first frame.
    - Smooth shading interpolates normals, not colours. Highlights are those of a rough coating with the width and the
      strength that `Look` asks for when seen from straight above. `Look.diffuse` scatters less of the ambient light too.
    - Surfaces without light (`lit=False`, or all of a scene without lights) show their bare colour, and are black to
      the light that others get.
    - Both sides of all surfaces are seen.

    It needs the extra `mitsuba`, runs on all cores in single precision, gives the same picture each time, and has no
    gradient: where one is asked for it raises.

    Args:
        samples: Light paths a pixel, rounded up to a grid such as 8 x 8. Noise falls as their root, along outlines
            faster.
        bounces: How often light may be reflected on its way; 1 for light straight from its source only.
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
        """What `gs.render` gives, without gradient."""
        with _mitsuba() as mi:
            _refuse_gradient(scene, trajectory)
            with torch.no_grad():
                stage = _set_up(scene, trajectory, size, frames)
                seen = stage.seen
                background = seen.background.expand(len(seen.vertices), *size, 3)
                video = torch.cat([background, torch.zeros_like(background[..., :1])], -1)
                depths = torch.full_like(video[..., 0], torch.inf)
                for b in _progress(len(video), len(video) * math.prod(size) * self.samples):
                    window = _window(seen.vertices[b], size, seen.near)
                    if all(window):
                        where = (b, *(slice(side.start, side.stop) for side in window))
                        color, cover, depths[where] = self._trace(mi, stage, b, size, window, depth=depth)
                        video[where] = torch.cat([color + (1.0 - cover) * background[where], cover], -1)
        video = (video if alpha else video[..., :3]).unflatten(0, stage.shape)
        return (video, depths.unflatten(0, stage.shape)) if depth else video

    def _trace(
        self, mi: Any, stage: _Stage, b: int, size: tuple[int, int], window: tuple[range, range], *, depth: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Colours of what is seen, [h, w, 3], zero where nothing is; its coverage, [h, w, 1], and depth, [h, w]."""
        axes, lens = stage.camera(b)
        world, frame = divmod(b, stage.shape[-1])
        seed = int(np.random.SeedSequence([self.seed, world, stage.numbers[frame]]).generate_state(1)[0])
        sensor = _sensor(mi, axes, lens, stage.seen.near, size, window, self.samples)
        path = {"type": "path", "max_depth": self.bounces + 1, "hide_emitters": True}
        total = torch.zeros(())
        for lit in sorted({surface.lit for surface in stage.surfaces}):
            # Bare colours are those that the first surface would scatter; the depth there comes with its place.
            aovs = ["color:albedo"] * (not lit) + ["place:position"] * depth
            integrator = path if lit else {"type": "depth"}
            if aovs:
                integrator = {"type": "aov", "aovs": ",".join(aovs), "image": integrator}
            shapes = _shapes(mi, stage, b, lit)
            lights = _emitters(stage, world) if lit else {}
            view = mi.load_dict({"type": "scene", "sensor": sensor, "integrator": integrator, **shapes, **lights})
            image = torch.from_numpy(np.array(mi.render(view, seed=seed))).to(stage.seen.vertices)
            total = total + image[..., :3] if lit else total + image[..., 4:7]
        cover = image[..., 3:4]
        along = image[..., -3:] @ axes[2] / cover[..., 0] if depth else cover[..., 0]
        return total, cover, torch.where(cover[..., 0] > 0, along, torch.inf)


@contextmanager
def _mitsuba() -> Iterator[Any]:
    """The module with its variant set, and set back to what the user had."""
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
    seen = [plain(value) for _, value, _ in scene.view_quantities()]
    asked = any(isinstance(value, torch.Tensor) and value.requires_grad for value in motions + seen)
    if asked and torch.is_grad_enabled():
        remedy = "has no gradient, and what is rendered asks for one: render under torch.no_grad(), or with gs.Exact()"
        raise InvalidInput("renderer", "Mitsuba()", remedy)


def _progress(count: int, samples: float) -> Any:
    console = Console(stderr=True)
    silent = not console.is_terminal or samples < LONG
    return track(range(count), "Tracing light", console=console, transient=True, disable=silent)


def _window(vertices: torch.Tensor, size: tuple[int, int], near: float) -> tuple[range, range]:
    """Rows and columns of pixels beyond which nothing is seen, from vertices in homogeneous pixels [V, 3]."""
    if bool((vertices[:, 2] <= near).any()):
        return range(size[0]), range(size[1])
    pixels = vertices[:, :2] / vertices[:, 2:]
    low, high = pixels.amin(0).floor() - 1, pixels.amax(0).ceil() + 1  # a pixel of room for rounding
    return tuple(  # type: ignore[return-value]
        range(int(low[k].clamp(0, limit)), int(high[k].clamp(0, limit))) for k, limit in ((1, size[0]), (0, size[1]))
    )


class _Surface(NamedTuple):
    """One surface, each corner of its faces a vertex of its own."""

    name: str
    look: Look | Checker
    lit: bool
    own: slice  # its vertices, among all
    vertices: torch.Tensor  # vertex of each corner, among all, [3 F]
    rows: torch.Tensor  # attributes of each corner, among all, [3 F]
    fans: Fans | None  # that normals are made of; None: a surface without light needs none
    normals: torch.Tensor  # normal of each corner, among the surface's, [3 F]
    texture: torch.Tensor | None  # [h, w, 3]


class _Stage(NamedTuple):
    """All frames of all worlds. Places are counted from the camera's eye, along the world's axes."""

    seen: Triangles  # in bare colours
    shape: tuple[int, ...]  # (*batch, T)
    numbers: list[int]  # of the frames in the trajectory, [T]
    worlds: Worlds
    surfaces: list[_Surface]
    matrix: torch.Tensor  # the camera's, [1 or W, 3, 3]
    lights: Lighting | None
    reach: torch.Tensor  # distance at which point lights are as bright as given [m], [1 or W, P]

    def vertices(self, b: int) -> torch.Tensor:
        """[m], [V, 3]."""
        return torch.linalg.solve(_of(self.matrix, b // self.shape[-1]), self.seen.vertices[b].mT).mT

    def camera(self, b: int) -> tuple[torch.Tensor, tuple[float, float, float]]:
        """Unit vectors to the right, down and forward as rows, [3, 3]; focal length and principal point [pixel]."""
        x, y, forward = _of(self.matrix, b // self.shape[-1])
        forward = forward / forward.norm()
        cx, cy = float(x @ forward), float(y @ forward)
        fx, fy = float((x - cx * forward).norm()), float((y - cy * forward).norm())
        if abs(fx - fy) > SQUARE * fx:
            remedy = "Mitsuba() needs square pixels: fx = fy at the size of the picture"
            raise InvalidInput("camera.fx/fy", f"{fx:g}, {fy:g} pixels", remedy)
        right = (x - cx * forward) / fx
        return torch.stack([right, torch.linalg.cross(forward, right), forward]), (fx, cx, cy)


def _of(x: torch.Tensor, world: int) -> torch.Tensor:
    """One world's share of a quantity [1 or W, ...]."""
    return x[world if len(x) > 1 else 0]


def _set_up(scene: Scene, trajectory: Trajectory, size: tuple[int, int], frames: Frames) -> _Stage:
    bare = replace(scene, lights=())
    seen, shape = triangles(bare, trajectory, size, frames)
    worlds = Worlds(shape[:-1], seen.vertices.dtype, seen.vertices.device)
    assert scene.camera is not None  # or `triangles` had complained
    matrix, eye = projection(scene.camera, size, worlds.dtype, worlds.device)
    matrix, eye = worlds(matrix, (3, 3)), worlds(eye, (3,))
    lights, reach = None, torch.zeros(1, 0)
    if scene.lights:
        lights = lighting(scene.lights, eye, worlds)
        lights = lights._replace(lamps=lights.lamps - lights.eye)
        start, _ = triangles(bare, trajectory, size, [0])
        middle = torch.linalg.solve(matrix, start.vertices.mean(1))
        reach = (lights.lamps[:, 0] - middle[:, None]).norm(dim=-1)
    numbers = torch.searchsorted(trajectory.time, chosen_frames(trajectory, frames).time).tolist()
    return _Stage(seen, shape, numbers, worlds, _surfaces(scene, seen, worlds), matrix, lights, reach)


def _surfaces(scene: Scene, seen: Triangles, worlds: Worlds) -> list[_Surface]:
    given = [surface for _, surface in drawn(scene)]
    structure = structure_of(given, True, worlds.dtype, worlds.device)  # with normals
    found, first = [], [0, 0, 0, 0]  # face and vertex; face and row among those with normals
    for surface, part in zip(given, structure.parts, strict=True):
        faces = slice(first[0], first[0] + len(surface.faces))
        lit = slice(first[2], first[2] + len(surface.faces))  # the front side
        rows = structure.connectivity.corners[lit].flatten().long() - first[3]
        mark = int(seen.connectivity.marks[faces.start]) // 2
        texture = None
        if mark:
            start, height, width = seen.connectivity.textures[mark - 1].tolist()
            texture = seen.texels[start : start + height * width].view(height, width, 3)
        found.append(
            _Surface(
                name=surface.name,
                look=surface.look,
                lit=surface.look.lit and len(scene.lights) > 0,
                own=slice(first[1], first[1] + len(part.rest)),
                vertices=seen.connectivity.faces[faces].flatten().long(),
                rows=seen.connectivity.corners[faces].flatten().long(),
                fans=part.fans if part.lit else None,
                normals=rows if part.normal_rows is None else part.normal_rows[rows],
                texture=texture,
            )
        )
        counts = (len(surface.faces), len(part.rest), len(surface.faces) * (1 + part.two_faced), len(part.color_rows))
        first = [start + count for start, count in zip(first, counts, strict=True)]
    return found


def _sensor(
    mi: Any,
    axes: torch.Tensor,
    lens: tuple[float, float, float],
    near: float,
    size: tuple[int, int],
    window: tuple[range, range],
    samples: int,
) -> dict[str, Any]:
    focal, cx, cy = lens
    (height, width), (rows, columns) = size, window
    pose = np.eye(4)
    pose[:3, :3] = (axes * axes.new_tensor([[-1.0], [-1.0], [1.0]])).T  # x to the left, y up
    side = math.isqrt(samples)
    return {
        "type": "perspective",
        "fov": math.degrees(2 * math.atan(width / 2 / focal)),
        "fov_axis": "x",
        "principal_point_offset_x": 0.5 - cx / width,
        "principal_point_offset_y": 0.5 - cy / height,
        "near_clip": near,
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
        # Without jitter the points of a pixel depend on the seed alone, so that two passes see the same.
        "sampler": {"type": "multijitter", "sample_count": side * -(-samples // side), "jitter": False},
    }


def _emitters(stage: _Stage, world: int) -> dict[str, Any]:
    """Lights. A white matt surface shows 1 / pi of the light that falls onto it."""
    if stage.lights is None:
        return {}
    beams, lamps = (_of(places, world)[0].tolist() for places in (stage.lights.beams, stage.lights.lamps))
    colors = math.pi * _of(stage.lights.colors, world)
    found: dict[str, Any] = {"ambient": {"type": "constant", "radiance": _rgb(_of(stage.lights.ambient, world))}}
    for k, (towards, color) in enumerate(zip(beams, colors, strict=False)):
        direction = [-x for x in towards]
        found[f"beam{k}"] = {"type": "directional", "direction": direction, "irradiance": _rgb(color)}
    for k, (place, color) in enumerate(zip(lamps, colors[len(beams) :], strict=True)):
        found[f"lamp{k}"] = {"type": "point", "position": place, "intensity": _rgb(color * _of(stage.reach, world)[k] ** 2)}
    return found


def _rgb(color: torch.Tensor) -> dict[str, Any]:
    return {"type": "rgb", "value": color.tolist()}


def _shapes(mi: Any, stage: _Stage, b: int, lit: bool) -> dict[str, Any]:
    """All surfaces, those black that are of the other kind."""
    places, rows = stage.vertices(b), stage.seen.attributes[b]
    shapes = {}
    for k, surface in enumerate(stage.surfaces):
        values = rows[surface.rows]
        light = values[:, :3] if surface.lit == lit else torch.zeros_like(values[:, :3])
        material = mi.Properties()
        material["bsdf"] = mi.load_dict(_material(mi, stage, surface, light, b // stage.shape[-1]))
        mesh = mi.Mesh(surface.name, len(values), len(values) // 3, material, surface.lit, values.shape[1] > 3)
        mesh.add_attribute("vertex_color", 3, _numbers(light))
        data = mi.traverse(mesh)
        data["faces"] = np.arange(len(values), dtype=np.uint32)
        data["vertex_positions"] = _numbers(places[surface.vertices])
        if surface.lit and surface.fans is not None:
            data["vertex_normals"] = _numbers(surface.fans(places[None, surface.own])[0, surface.normals])
        if values.shape[1] > 3:
            data["vertex_texcoords"] = _numbers(values[:, 6:])
        data.update()
        shapes[f"surface{k}"] = mesh
    return shapes


def _numbers(x: torch.Tensor) -> np.ndarray:
    return x.cpu().numpy().astype(np.float32).ravel()


def _material(mi: Any, stage: _Stage, surface: _Surface, light: torch.Tensor, world: int) -> dict[str, Any]:
    """Matt, in the surface's colours, with a coating where it has highlights."""
    look, color = surface.look, {"type": "mesh_attribute", "name": "vertex_color"}
    share, strength, exponent = (
        float(_of(stage.worlds(getattr(look, name, default)), world))
        for name, default in (("diffuse", 1.0), ("specular", 0.0), ("shininess", 20.0))
    )
    if not surface.lit:
        share, strength = 1.0, 0.0
    if surface.texture is None:
        color["scale"] = share
    else:
        if bool((light != light[0]).any()):
            remedy = "Mitsuba() shows a texture under one colour: leave out vertex_colors and face_colors"
            raise InvalidInput(f"{surface.name}.look.texture", "given with colours that vary", remedy)
        texels = (surface.texture * light[0] * share).cpu().numpy().astype(np.float32)
        color = {"type": "bitmap", "bitmap": mi.Bitmap(texels), "raw": True}
    if strength <= 0.0:
        return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": color}}
    # A rough mirror: the lobe of roughness a is about as wide as (n . h)^(2 / a^2 - 2), and its highlight 1 / (4 a^2)
    # times as bright as a white matt surface.
    roughness = math.sqrt(2.0 / (exponent + 2.0))
    weight = min(4.0 * roughness**2 * strength, STRONGEST)
    matt = {"type": "diffuse", "reflectance": color}
    mirror = {"type": "roughconductor", "material": "none", "alpha": roughness}
    return {"type": "twosided", "bsdf": {"type": "blendbsdf", "weight": weight, "matt": matt, "mirror": mirror}}
