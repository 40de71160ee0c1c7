"""The viewer: a scene and its motion in the browser, with sliders for the unknowns that simulate it again.

viser serves the page and draws it. Every change of a frame sends the pose of rigid bodies and the vertices of deforming
ones; a thread of its own plays the motion, another simulates.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradsim.scene.errors import GradsimError, MissingExtra, OutOfRange
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate
from gradsim.simulate.stability import stable_substeps
from gradsim.video.video import Video
from gradsim.view.arrows import force_arrows, push_arrows
from gradsim.view.controls import Controls
from gradsim.view.glb import glb_bytes, quaternions
from gradsim.view.observed import TRACKED, Observed, Picture, difference, overlay
from gradsim.view.player import PATH_COLORS, view_of
from gradsim.view.surfaces import MovingSurface, frame_times, moving_surfaces

HOST, PORT = "127.0.0.1", 8080
MAX_SHADOW_FACES = 5000  # of a surface that casts a shadow, for which it is drawn several times more
MIN_ARROW = 1e-3  # of the length of an arrow that is drawn


class Viewer:
    """A page in the browser that shows a scene; `gs.view` creates one.

    Args:
        scene: A scene; unknowns have sliders and start from their guesses.
        trajectory: Its motion; simulated if None.
        video: A video of the scene, shown in the camera and beside the simulated one.
        observations: `gs.Tracks` and `gs.Masks` of the motion, with the frames of the video.
        time: Frames and steps of simulations; by default those of the trajectory, or of the video, or 60 frames.
        values: Values of unknowns by path, in place of their guesses.
        host: Address to listen on. Whoever reaches it can look at the scene and operate the page.
        port: Port; if it is taken, the next free one.
    """

    def __init__(
        self,
        scene: Scene,
        trajectory: Trajectory | None = None,
        *,
        video: Video | None = None,
        observations: Sequence[Any] = (),
        time: Time | None = None,
        values: Mapping[str, Any] | None = None,
        host: str = HOST,
        port: int = PORT,
    ):
        try:
            import viser
        except ImportError as error:
            raise MissingExtra("gs.view", "view") from error
        self.scene, self.observed = scene, Observed(video, observations)
        self.time = time or _default_time(trajectory, self.observed)
        self.values = {path: unknown.guess.copy() for path, unknown in scene.unknowns.items()}
        self.values |= {path: np.asarray(value, dtype=np.float64) for path, value in (values or {}).items()}
        self._lock, self._wake, self._running = threading.RLock(), threading.Event(), True
        self._handles: dict[str, Any] = {}
        self._shapes: dict[str, tuple[Any, ...]] = {}  # of surfaces that the page has
        self._rendered: dict[int, Picture] = {}
        self.filled = self._fill()
        self.trajectory = trajectory if trajectory is not None else self._simulate(self.filled)
        self.server: Any = viser.ViserServer(host=host, port=port, label="gradsim", verbose=False)
        self.server.scene.set_up_direction("+y")
        self.server.gui.configure_theme(control_width="large")
        self.controls = Controls(self)
        self._build()
        view = view_of(self.filled, self.surfaces)
        self.server.initial_camera.position, self.server.initial_camera.look_at = _beside(view), view["target"]
        self.server.initial_camera.up = (0.0, 1.0, 0.0)
        self.server.initial_camera.fov = float(np.radians(view["fov"]))
        for task in (self._play, self._work):
            threading.Thread(target=task, daemon=True).start()

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    def stop(self) -> None:
        """Closes the page's server."""
        self._running = False
        self._wake.set()
        self.server.stop()

    def wait(self) -> None:
        """Waits until the viewer is stopped or interrupted."""
        while self._running:
            clock.sleep(0.2)

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Sets values of unknowns by path and simulates again, in the background."""
        with self._lock:
            self.values |= {path: np.asarray(value, dtype=np.float64) for path, value in values.items()}
        self._wake.set()

    def show(self, frame: int) -> None:
        """Shows a frame."""
        if not 0 <= frame < len(self.trajectory):
            raise OutOfRange("frame", frame, f"the trajectory has {len(self.trajectory)} frames")
        with self._lock, self.server.atomic():
            for surface in self.surfaces:
                self._pose(surface, frame)
            self._show_arrows(frame)
            self._show_tracks(frame)
            self._show_images(frame)

    def glb(self) -> bytes:
        """Returns scene and motion as the content of a .glb file."""
        return glb_bytes(self.surfaces, self._times())

    def _fill(self) -> Scene:
        return self.scene.with_values(self.values) if self.values else self.scene

    def _simulate(self, scene: Scene) -> Trajectory:
        steps = self.time.substeps or stable_substeps(scene, self.time.fps, self.time.integrator)
        with torch.no_grad():
            return simulate(
                scene, frames=self.time.frames, fps=self.time.fps, substeps=steps, integrator=self.time.integrator
            )

    def _times(self) -> np.ndarray:
        return frame_times(self.trajectory)

    def _build(self) -> None:
        """Creates everything that is drawn, from the present trajectory."""
        self.surfaces = moving_surfaces(self.filled, self.trajectory)
        view = view_of(self.filled, self.surfaces)
        self.length = 0.15 * float(np.linalg.norm(np.subtract(view["eye"], view["target"])))  # of arrows [m]
        self.forces = force_arrows(self.filled, self.trajectory, self.length)
        self._rendered.clear()
        for surface in self.surfaces:
            shape = _shape_key(surface)
            if self._shapes.get(surface.name) != shape:  # what has not changed is not sent again
                self._shapes[surface.name] = shape
                self._handles[surface.name] = self._add_surface(surface)
        self._add_paths()
        self._add_camera(view)
        self.controls.set_frames(self._times())
        self.show(min(self.controls.frame, len(self.trajectory) - 1))

    def _add_surface(self, surface: MovingSurface) -> Any:
        scene, name = self.server.scene, f"/scene/{surface.name}"
        one_color = surface.texture is None and len(np.unique(surface.colors.round(4), axis=0)) == 1
        if surface.axes is not None and not one_color:  # its shape is sent once, with texture and colours
            still = MovingSurface(**{**surface.__dict__, "axes": np.eye(3)[None], "origin": np.zeros((1, 3))})
            return scene.add_glb(name, glb_bytes([still], np.zeros(1)))
        rigid = surface.axes is not None
        rows = surface.points[surface.vertices] if rigid else surface.frame(0)[surface.vertices]
        color = tuple(int(x) for x in np.round(np.clip(surface.colors.mean(0), 0, 1) * 255))
        shadow = len(surface.faces) <= MAX_SHADOW_FACES
        return scene.add_mesh_simple(name, rows, surface.faces, color=color, side="double", cast_shadow=shadow)

    def _pose(self, surface: MovingSurface, frame: int) -> None:
        handle = self._handles[surface.name]
        if surface.axes is None or surface.origin is None:
            if len(surface.points) > 1:
                handle.vertices = surface.frame(frame)[surface.vertices].astype(np.float32)
            return
        axes, origin = (array[min(frame, len(array) - 1)] for array in (surface.axes, surface.origin))
        x, y, z, w = quaternions(axes[None])[0]
        handle.wxyz, handle.position = (w, x, y, z), tuple(origin)

    def _add_paths(self) -> None:
        for k, surface in enumerate(surface for surface in self.surfaces if not surface.static):
            centers = surface.centers
            if len(centers) > 1:
                color = tuple(int(255 * x) for x in PATH_COLORS[k % len(PATH_COLORS)])
                pairs = np.stack([centers[:-1], centers[1:]], 1)
                name = f"/paths/{surface.name}"
                line = self.server.scene.add_line_segments(name, pairs, color, thickness=2.0, thickness_units="screen")
                self._handles[name] = line
                self._handles[name].visible = self.controls.shows("paths")

    def _add_camera(self, view: dict[str, Any]) -> None:
        """The scene's camera as a frustum, with the frame of the video in it."""
        if self.filled.camera is None:
            return
        eye, target = np.array(view["eye"]), np.array(view["target"])
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, (0.0, 1.0, 0.0))
        right /= max(float(np.linalg.norm(right)), 1e-9)
        x, y, z, w = quaternions(np.stack([right, np.cross(forward, right), forward])[None])[0]
        height, width = self.observed.size or (1, 1)
        self._handles["camera"] = self.server.scene.add_camera_frustum(
            "/camera",
            float(np.radians(view["fov"])),
            width / height,
            scale=0.6 * self.length,
            thickness=1.5,
            thickness_units="screen",
            wxyz=(w, x, y, z),
            position=tuple(eye),
            visible=self.controls.shows("camera"),
        )

    def _show_arrows(self, frame: int) -> None:
        arrows = [push_arrows(self.filled, self.trajectory, frame, self.length)]
        if frame < len(self.forces):
            own = self.forces[frame]
            arrows.append(own[np.linalg.norm(own[:, 1] - own[:, 0], axis=1) > MIN_ARROW * self.length])
        colors = ((200, 60, 40), (30, 110, 60))
        for name, points, color in zip(("pushes", "forces"), arrows, colors, strict=False):
            self._remove(f"/{name}")
            if len(points) and self.controls.shows(name):
                radius = 0.04 * self.length
                self._handles[f"/{name}"] = self.server.scene.add_arrows(
                    f"/{name}",
                    points.astype(np.float32),
                    color,
                    shaft_radius=radius,
                    head_radius=2.5 * radius,
                    head_length=5 * radius,
                )

    def _remove(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.remove()

    def _show_tracks(self, frame: int) -> None:
        """Tracked points as spheres, joined to where the simulation has them."""
        names = "/tracks/points", "/tracks/differences"
        for name in names:
            self._remove(name)
        if not self.observed.tracks or not self.controls.shows("tracks"):
            return
        observed, simulated = self.observed.points(self.filled, self.trajectory, frame)
        if len(observed):
            scene, options = self.server.scene, {"point_shape": "circle", "precision": "float32"}
            self._handles[names[0]] = scene.add_point_cloud(
                names[0], observed.astype(np.float32), TRACKED, point_size=0.06 * self.length, **options
            )
            lines = np.stack([observed, simulated], 1).astype(np.float32)
            self._handles[names[1]] = scene.add_line_segments(
                names[1], lines, TRACKED, thickness=2.0, thickness_units="screen"
            )

    def _show_images(self, frame: int) -> None:
        """Observed, simulated and difference at a frame, with what was measured in them."""
        shown = [name for name in self.observed.kinds if self.controls.shows(name)]
        observed = self.observed.picture(frame)
        if observed is None or self.filled.camera is None:
            return
        if frame not in self._rendered:
            rendered = self.observed.simulated(self.filled, self.trajectory, frame)
            assert rendered is not None
            self._rendered[frame] = rendered
        simulated = self._rendered[frame]
        marked = self.observed.marked(observed, frame, shown)
        self._handles["camera"].image = marked
        compared = self.observed.marked_simulation(simulated, self.filled, self.trajectory, frame, shown)
        panels = np.concatenate([marked, compared], 1)
        if self.observed.video is not None:
            below = np.concatenate([difference(observed, simulated), overlay(observed, simulated)], 1)
            panels = np.concatenate([panels, below])
        self.controls.set_panels(panels)

    def _work(self) -> None:
        """Simulates again whenever values have changed, with the newest ones."""
        while self._wake.wait() and self._running:
            self._wake.clear()
            with self._lock:
                scene = self._fill()
            begin = clock.perf_counter()
            try:
                trajectory = self._simulate(scene)
            except GradsimError as error:
                self.controls.report(str(error))
                continue
            with self._lock, self.server.atomic():
                self.filled, self.trajectory = scene, trajectory
                self._build()
            self.controls.report(f"simulated in {clock.perf_counter() - begin:.2f} s")

    def _play(self) -> None:
        """Advances frames in real time while the page plays."""
        while self._running:
            step = 1.0 / self.time.fps
            if self.controls.playing:
                begin = clock.perf_counter()
                self.controls.frame = (self.controls.frame + 1) % len(self.trajectory)
                step = max(0.0, step - (clock.perf_counter() - begin))
            clock.sleep(step)


def _shape_key(surface: MovingSurface) -> tuple[Any, ...]:
    """Returns what decides how a surface is sent: its faces, its looks, and its shape if that is rigid."""
    arrays = [surface.faces, surface.colors, surface.uv, surface.texture]
    arrays += [surface.points] if surface.axes is not None or len(surface.points) == 1 else []
    return tuple(None if array is None else array.tobytes() for array in arrays)


def _beside(view: Mapping[str, Any]) -> tuple[float, ...]:
    """Returns a point behind, above and to the right of a camera, from where it is seen too [m]."""
    back = np.subtract(view["eye"], view["target"])
    right = np.cross((0.0, 1.0, 0.0), back)
    distance = float(np.linalg.norm(back))
    away = 1.5 * back + 0.8 * right + np.array([0.0, 0.45 * distance, 0.0])
    return tuple(map(float, np.add(view["target"], away)))


def _default_time(trajectory: Trajectory | None, observed: Observed) -> Time:
    if trajectory is not None and len(trajectory) > 1:
        times = frame_times(trajectory)
        return Time(len(trajectory), float(1.0 / (times[1] - times[0])))
    video = observed.video
    if video is not None:
        return Time(len(video), video.fps or Time.fps)
    measured = (*observed.tracks, *observed.masks)
    return Time(measured[0].frames) if measured else Time()


def view(
    scene: Scene,
    trajectory: Trajectory | None = None,
    *,
    video: Video | None = None,
    observations: Sequence[Any] = (),
    time: Time | None = None,
    host: str = HOST,
    port: int = PORT,
) -> Viewer:
    """Opens a scene in the browser: 3D, time slider, sliders for its unknowns.

    The page is at `viewer.url`; `viewer.stop()` closes it. It needs `pip install 'gradsim[view]'`.

    Example:
        `viewer = gs.view(scene, gs.simulate(scene, frames=60))`

    Args:
        scene: A scene; unknowns have sliders that simulate again, and start from their guesses.
        trajectory: Its motion; simulated if None.
        video: A video of the scene, shown in the camera and beside the simulated one.
        observations: `gs.Tracks` and `gs.Masks` of the motion, with the frames of the video: tracked points are shown
            in the pictures and in space, joined to where the simulation has them; masks by their outlines.
        time: Frames and steps of simulations; by default those of the trajectory, or of the video, or 60 frames.
        host: Address to listen on; by default this machine only.
        port: Port; if it is taken, the next free one.
    """
    return Viewer(scene, trajectory, video=video, observations=observations, time=time, host=host, port=port)
