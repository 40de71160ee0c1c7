"""Makes the meshes in src/gradsim/models: fruits, vegetables, animals, office objects and airplanes.

    pip install scikit-image fast-simplification
    python tools/make_models.py [NAME ...]

Each object is a signed distance function, a number for each point of space that is negative inside. Marching cubes turn
it into a fine mesh, which is then simplified to at most 250 vertices. Objects are about 1 m across and stand upright,
y up; those with a front face +x.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import fast_simplification
import numpy as np
import trimesh
from skimage.measure import marching_cubes

MODELS = Path(__file__).parents[1] / "src" / "gradsim" / "models"
VERTICES = 250  # at most
CELL = 0.0163  # edge length of the cubes [m]
REACH = 0.8513  # half side of the sampled region [m]; odd, so that no plane of a shape lies on the grid

Points = np.ndarray  # [..., 3]
Distance = np.ndarray  # [...]
Solid = Callable[[Points], Distance]


def ball(center: tuple, radii: float | tuple) -> Solid:
    """An ellipsoid; its distance is exact for a sphere and close to the surface."""
    c, r = np.array(center), np.broadcast_to(np.asarray(radii, float), (3,))

    def distance(p: Points) -> Distance:
        scaled = np.linalg.norm((p - c) / r, axis=-1)
        slope = np.linalg.norm((p - c) / r**2, axis=-1)
        return scaled * (scaled - 1.0) / np.maximum(slope, 1e-9)

    return distance


def rod(start: tuple, end: tuple, radius: float, end_radius: float | None = None) -> Solid:
    """A capsule whose radius changes linearly from start to end."""
    a, b = np.array(start), np.array(end)
    last = radius if end_radius is None else end_radius

    def distance(p: Points) -> Distance:
        t = np.clip((p - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        return np.linalg.norm(p - a - t[..., None] * (b - a), axis=-1) - (radius + t * (last - radius))

    return distance


def polyline(points: list[tuple], radii: list[float], blend: float = 0.0) -> Solid:
    """Rods from point to point."""
    return union(*(rod(*points[k : k + 2], *radii[k : k + 2]) for k in range(len(points) - 1)), blend=blend)


def block(center: tuple, half: tuple, rounding: float = 0.02) -> Solid:
    """A box with rounded edges."""
    c, h = np.array(center), np.array(half) - rounding

    def distance(p: Points) -> Distance:
        q = np.abs(p - c) - h
        return np.linalg.norm(np.maximum(q, 0.0), axis=-1) + np.minimum(q.max(-1), 0.0) - rounding

    return distance


def disc(center: tuple, radius: float, half_height: float, rounding: float = 0.02) -> Solid:
    """A cylinder about the y axis with rounded edges."""
    c = np.array(center)

    def distance(p: Points) -> Distance:
        x, y, z = np.moveaxis(p - c, -1, 0)
        q = np.stack([np.hypot(x, z) - radius + rounding, np.abs(y) - half_height + rounding], -1)
        return np.linalg.norm(np.maximum(q, 0.0), axis=-1) + np.minimum(q.max(-1), 0.0) - rounding

    return distance


def revolved(radii: list[float], heights: list[float], smooth: bool = True) -> Solid:
    """A solid of revolution about the y axis. Its outline passes through points (radius, height), from the lower to the
    upper end of the axis."""
    outline = np.stack([radii, heights], -1)
    if smooth:
        outline = _spline(outline, 5)
    return _revolved_polygon(outline)


def _revolved_polygon(outline: np.ndarray) -> Solid:
    closed = np.concatenate([outline, outline[::-1] * (-1.0, 1.0)])

    def distance(p: Points) -> Distance:
        flat = np.stack([np.hypot(p[..., 0], p[..., 2]), p[..., 1]], -1)
        return polygon_distance(flat, closed)

    return distance


def plate(corners: list[tuple[float, float]], level: float, half: float, rounding: float = 0.01) -> Solid:
    """A plate parallel to the xz plane with the given corners (x, z), convex or not."""
    corner_array = np.array(corners)

    def distance(p: Points) -> Distance:
        q = np.stack(
            [polygon_distance(p[..., [0, 2]], corner_array) + rounding, np.abs(p[..., 1] - level) - half + rounding], -1
        )
        return np.linalg.norm(np.maximum(q, 0.0), axis=-1) + np.minimum(q.max(-1), 0.0) - rounding

    return distance


def fin(corners: list[tuple[float, float]], side: float, half: float, rounding: float = 0.01) -> Solid:
    """A plate parallel to the xy plane with the given corners (x, y)."""
    lying = plate(corners, side, half, rounding)
    return lambda p: lying(p[..., [0, 2, 1]])


def polygon_distance(p: np.ndarray, corners: np.ndarray) -> Distance:
    """Returns the signed distance of points [..., 2] from a polygon [n, 2]."""
    best = np.full(p.shape[:-1], np.inf)
    inside = np.zeros(p.shape[:-1], dtype=bool)
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        edge = b - a
        length = edge @ edge
        if length < 1e-18:
            continue
        t = np.clip((p - a) @ edge / length, 0.0, 1.0)
        best = np.minimum(best, ((p - a - t[..., None] * edge) ** 2).sum(-1))
        crosses = (a[1] > p[..., 1]) != (b[1] > p[..., 1])
        slope = edge[0] / edge[1] if edge[1] else 0.0
        inside ^= crosses & (p[..., 0] < a[0] + (p[..., 1] - a[1]) * slope)
    return np.where(inside, -1.0, 1.0) * np.sqrt(best)


def _spline(points: np.ndarray, parts: int) -> np.ndarray:
    """Returns points on the Catmull-Rom spline through points [n, 2]."""
    padded = np.concatenate([points[:1] * 2 - points[1:2], points, points[-1:] * 2 - points[-2:-1]])
    t = np.linspace(0.0, 1.0, parts, endpoint=False)[:, None]
    pieces = []
    for a, b, c, d in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        pieces.append(0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - 3 * c + d - a) * t**3))
    curve = np.concatenate([*pieces, points[-1:]])
    return np.stack([np.maximum(curve[:, 0], 0.0), curve[:, 1]], -1)


def union(*solids: Solid, blend: float = 0.0) -> Solid:
    """The union of solids; creases are filled over the distance `blend` [m]."""

    def distance(p: Points) -> Distance:
        total = solids[0](p)
        for solid in solids[1:]:
            total = _smooth_minimum(total, solid(p), blend)
        return total

    return distance


def cut(solid: Solid, tool: Solid, blend: float = 0.0) -> Solid:
    """A solid without the points inside another."""
    return lambda p: -_smooth_minimum(-solid(p), tool(p), blend)


def mirrored(solid: Solid) -> Solid:
    """A solid and its mirror image in the xy plane; the given half has z >= 0."""
    return lambda p: solid(np.stack([p[..., 0], p[..., 1], np.abs(p[..., 2])], -1))


def _smooth_minimum(a: Distance, b: Distance, blend: float) -> Distance:
    if not blend:
        return np.minimum(a, b)
    h = np.maximum(blend - np.abs(a - b), 0.0) / blend
    return np.minimum(a, b) - h * h * blend / 4


def apple() -> Solid:
    body = revolved(
        [0.0, 0.16, 0.30, 0.43, 0.46, 0.36, 0.2, 0.08, 0.0], [-0.33, -0.4, -0.36, -0.12, 0.1, 0.33, 0.37, 0.3, 0.24]
    )
    stem = polyline([(0.0, 0.2, 0.0), (0.02, 0.36, 0.0), (0.07, 0.5, 0.0)], [0.035, 0.03, 0.04])
    leaf = ball((0.2, 0.48, 0.0), (0.14, 0.035, 0.075))
    return union(body, union(stem, leaf, blend=0.02), blend=0.02)


def banana() -> Solid:
    angles = np.radians(np.linspace(200.0, 340.0, 9))
    points = [(0.55 * np.cos(a), 0.36 + 0.55 * np.sin(a), 0.0) for a in angles]
    radii = [0.045, 0.085, 0.115, 0.128, 0.132, 0.128, 0.118, 0.09, 0.05]
    stem = rod(points[0], (points[0][0] - 0.01, points[0][1] + 0.13, 0.0), 0.042, 0.05)
    return union(polyline(points, radii, blend=0.03), stem, blend=0.03)


def pear() -> Solid:
    body = revolved(
        [0.0, 0.18, 0.34, 0.37, 0.3, 0.19, 0.15, 0.09, 0.0], [-0.45, -0.46, -0.33, -0.14, 0.05, 0.2, 0.32, 0.41, 0.42]
    )
    stem = polyline([(0.0, 0.36, 0.0), (0.01, 0.48, 0.0), (0.06, 0.6, 0.0)], [0.035, 0.028, 0.035])
    return union(body, stem, blend=0.02)


def carrot() -> Solid:
    root = revolved(
        [0.0, 0.03, 0.08, 0.125, 0.165, 0.17, 0.1, 0.0], [-0.62, -0.58, -0.3, -0.05, 0.18, 0.27, 0.33, 0.33]
    )
    leaves = []
    for turn, lean in ((0.0, 0.0), (0.3, 0.2), (0.3 + 2 * np.pi / 3, 0.2), (0.3 + 4 * np.pi / 3, 0.2)):
        tip = (lean * np.cos(turn), 0.68 - lean * 0.35, lean * np.sin(turn))
        leaves.append(
            polyline([(0.0, 0.28, 0.0), tuple(0.5 * np.array(tip) + (0, 0.12, 0)), tip], [0.035, 0.045, 0.07])
        )
    return union(root, union(*leaves), blend=0.02)


def rabbit() -> Solid:
    body = union(
        ball((-0.08, -0.17, 0.0), (0.32, 0.28, 0.24)),
        ball((0.13, -0.05, 0.0), (0.17, 0.24, 0.17)),
        ball((0.25, 0.2, 0.0), (0.2, 0.16, 0.15)),
        ball((0.4, 0.15, 0.0), (0.09, 0.08, 0.08)),
        blend=0.08,
    )
    ears = mirrored(
        polyline([(0.17, 0.3, 0.06), (0.1, 0.5, 0.09), (0.02, 0.68, 0.12)], [0.05, 0.07, 0.035], blend=0.03)
    )
    thighs = mirrored(ball((-0.1, -0.24, 0.17), (0.2, 0.19, 0.11)))
    feet = mirrored(rod((-0.08, -0.41, 0.18), (0.12, -0.42, 0.18), 0.055))
    paws = mirrored(polyline([(0.18, -0.14, 0.1), (0.24, -0.41, 0.1), (0.31, -0.42, 0.1)], [0.07, 0.05, 0.05]))
    tail = ball((-0.42, -0.16, 0.0), 0.1)
    return union(body, ears, thighs, feet, paws, tail, blend=0.035)


def duck() -> Solid:
    body = union(
        ball((-0.03, -0.2, 0.0), (0.4, 0.24, 0.27)),
        polyline([(-0.28, -0.12, 0.0), (-0.5, 0.08, 0.0)], [0.16, 0.04]),
        blend=0.1,
    )
    neck = polyline([(0.2, -0.05, 0.0), (0.25, 0.18, 0.0)], [0.15, 0.1], blend=0.02)
    head = ball((0.27, 0.3, 0.0), (0.18, 0.17, 0.16))
    beak = union(ball((0.47, 0.26, 0.0), (0.15, 0.035, 0.1)), ball((0.42, 0.29, 0.0), (0.1, 0.06, 0.08)), blend=0.03)
    wings = mirrored(ball((-0.08, -0.14, 0.25), (0.27, 0.14, 0.06)))
    return union(union(body, neck, head, blend=0.08), beak, wings, blend=0.025)


def mug() -> Solid:
    wall = cut(disc((0.0, 0.0, 0.0), 0.34, 0.42, 0.03), disc((0.0, 0.12, 0.0), 0.265, 0.45, 0.04))
    arc = np.radians(np.linspace(90.0, -90.0, 9))
    handle = [(0.3 + 0.26 * np.cos(a), 0.02 + 0.24 * np.sin(a), 0.0) for a in arc]
    grip = polyline(handle, [0.055] * 9)
    return union(wall, cut(grip, disc((0.0, 0.0, 0.0), 0.3, 0.6)), blend=0.03)


def lamp() -> Solid:
    base = disc((-0.1, -0.5, 0.0), 0.26, 0.05, 0.03)
    arm = polyline([(-0.1, -0.48, 0.0), (-0.28, -0.02, 0.0), (0.06, 0.38, 0.0)], [0.045, 0.05, 0.045])
    tilt = np.radians(35.0)
    rotate = np.array([[np.cos(tilt), -np.sin(tilt), 0.0], [np.sin(tilt), np.cos(tilt), 0.0], [0.0, 0.0, 1.0]])
    shade = revolved([0.0, 0.27, 0.27, 0.1, 0.09, 0.0], [-0.22, -0.22, -0.18, 0.07, 0.16, 0.16], smooth=False)
    hollow = revolved([0.0, 0.24, 0.07, 0.0], [-0.3, -0.235, -0.02, -0.02], smooth=False)
    head = cut(shade, hollow)
    return union(base, arm, lambda p: head((p - (0.14, 0.36, 0.0)) @ rotate), blend=0.015)


def airliner() -> Solid:
    hull = polyline(
        [(-0.66, 0.05, 0.0), (-0.4, 0.015, 0.0), (-0.1, 0.0, 0.0), (0.5, 0.0, 0.0), (0.64, -0.015, 0.0)],
        [0.025, 0.075, 0.092, 0.092, 0.05],
        blend=0.03,
    )
    wing = mirrored(
        plate([(0.16, -0.02), (0.16, 0.08), (-0.16, 0.68), (-0.26, 0.68), (-0.14, 0.08), (-0.14, -0.02)], -0.03, 0.027)
    )
    tail = mirrored(plate([(-0.46, -0.02), (-0.46, 0.02), (-0.6, 0.28), (-0.68, 0.28), (-0.63, -0.02)], 0.05, 0.024))
    rudder = fin([(-0.4, 0.02), (-0.6, 0.33), (-0.7, 0.33), (-0.63, 0.02)], 0.0, 0.026)
    engines = mirrored(rod((0.13, -0.1, 0.27), (-0.04, -0.1, 0.27), 0.058))
    return union(hull, wing, tail, rudder, engines, blend=0.02)


def fighter() -> Solid:
    hull = union(
        polyline(
            [(0.7, -0.01, 0.0), (0.4, 0.0, 0.0), (0.1, 0.01, 0.0), (-0.55, 0.0, 0.0)],
            [0.028, 0.065, 0.095, 0.085],
            blend=0.02,
        ),
        ball((0.28, 0.08, 0.0), (0.18, 0.065, 0.06)),
        mirrored(block((-0.15, -0.01, 0.1), (0.32, 0.065, 0.06), 0.04)),
        blend=0.03,
    )
    wing = mirrored(plate([(0.3, -0.02), (0.28, 0.1), (-0.3, 0.52), (-0.42, 0.52), (-0.42, -0.02)], -0.01, 0.025))
    tail = mirrored(plate([(-0.45, -0.02), (-0.45, 0.08), (-0.64, 0.3), (-0.72, 0.3), (-0.66, -0.02)], 0.0, 0.022))
    fins = mirrored(fin([(-0.3, 0.0), (-0.52, 0.32), (-0.64, 0.32), (-0.58, 0.0)], 0.13, 0.022))
    return union(hull, wing, tail, fins, blend=0.02)


OBJECTS: dict[str, Callable[[], Solid]] = {
    function.__name__: function
    for function in (apple, banana, pear, carrot, rabbit, duck, mug, lamp, airliner, fighter)
}


def fine_mesh(solid: Solid) -> tuple[np.ndarray, np.ndarray]:
    """Returns vertices [V, 3] and outward faces [F, 3] of the surface of a solid."""
    axis = np.arange(-REACH, REACH + CELL / 2, CELL)
    layers = [solid(np.stack(np.meshgrid([x], axis, axis, indexing="ij"), -1)) for x in axis]
    vertices, faces, _, _ = marching_cubes(np.concatenate(layers), 0.0, spacing=(CELL,) * 3)
    return vertices - REACH, faces[:, ::-1] if _volume(vertices, faces) < 0 else faces


def _volume(vertices: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return float((np.cross(a, b) * c).sum() / 6)


def simplified(vertices: np.ndarray, faces: np.ndarray) -> trimesh.Trimesh:
    """Returns a closed mesh of at most VERTICES vertices, about its centre of mass."""
    for target in range(2 * VERTICES - 4, 300, -4):  # a closed surface of genus 0 has 2 V - 4 faces
        points, triangles = fast_simplification.simplify(
            vertices.astype(np.float32), faces.astype(np.int32), target_count=target
        )
        mesh = trimesh.Trimesh(points.astype(float), triangles, process=False)
        if mesh.is_volume and len(mesh.vertices) <= VERTICES and mesh.body_count == 1:
            mesh.apply_translation(-mesh.center_mass)
            return mesh
    raise SystemExit("no closed mesh was found: change the shape or CELL")


def write(name: str, mesh: trimesh.Trimesh) -> None:
    """Writes a mesh as a Wavefront file with a tenth of a millimetre's precision."""
    lines = [f"v {x:.4f} {y:.4f} {z:.4f}" for x, y, z in mesh.vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in mesh.faces + 1]
    (MODELS / f"{name}.obj").write_text("\n".join(lines) + "\n")


def main(names: list[str]) -> None:
    for name in names or OBJECTS:
        mesh = simplified(*fine_mesh(OBJECTS[name]()))
        write(name, mesh)
        print(f"{name:9} {len(mesh.vertices):4} vertices {mesh.volume:.4f} m^3, {mesh.extents.round(2)} m")


if __name__ == "__main__":
    main(sys.argv[1:])
