"""What was observed of a scene, for the viewer: pictures with the outlines of masks and tracked points, and points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.fit.observations.masks import Masks
from gradsim.fit.observations.tracks import Tracks
from gradsim.render.camera import projection
from gradsim.render.render import render
from gradsim.scene.errors import WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.video import Video

MIN_WIDTH = 240  # of pictures [px]
SIDE = 480  # longer side of pictures of tracks without a video [px]
TRACKED, OUTLINE = (255, 190, 0), (0, 170, 255)  # colours of tracked points and of the outlines of masks

Picture = NDArray[np.uint8]  # [h, w, 3]


class Observed:
    """A video, tracks and masks of one motion.

    Args:
        video: Video; None if there is none.
        observations: `gs.Tracks` and `gs.Masks`, with the frames of the video.
    """

    def __init__(self, video: Video | None = None, observations: Sequence[Any] = ()):
        for given in observations:
            if not isinstance(given, (Tracks, Masks)):
                raise WrongType("observations", type(given).__name__, "must be gs.Tracks and gs.Masks")
        self.video = video
        self.tracks = tuple(given for given in observations if isinstance(given, Tracks))
        self.masks = tuple(given for given in observations if isinstance(given, Masks))

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the pictures [px]; None if nothing was seen by a camera."""
        if self.video is not None:
            return self.video.size
        if self.masks:
            return self.masks[0].size
        size = next((own.size for own in self.tracks if own.size is not None), None)
        if size is None:
            return None
        factor = min(1.0, SIDE / max(size))
        return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))

    @property
    def kinds(self) -> list[str]:
        """What there is besides pictures: "tracks", "masks"."""
        return [name for name in ("tracks", "masks") if getattr(self, name)]

    def picture(self, frame: int) -> Picture | None:
        """Returns the observed picture at a frame: that of the video, a mask, or white; None without a size."""
        if self.size is None:
            return None
        if self.video is not None:
            return _bytes(self.video.frames[min(frame, len(self.video) - 1)])
        if self.masks:
            return _bytes(self._mask(self.masks[0], frame)[..., None].expand(-1, -1, 3))
        return _bytes(torch.ones(*self.size, 3))

    def marked(self, picture: Picture, frame: int, shown: Sequence[str]) -> Picture:
        """Returns an observed picture with what was measured in it: outlines of masks, and tracked points."""
        picture = picture.copy()
        for masks in self.masks if "masks" in shown else ():
            outline(picture, self._mask(masks, frame).numpy())
        for tracks in self.tracks if "tracks" in shown else ():
            if tracks.pixels is not None:
                mark(picture, tracks.pixels[min(frame, tracks.frames - 1)].numpy(), tracks.size)
        return picture

    @torch.no_grad()
    def simulated(self, scene: Scene, trajectory: Trajectory, frame: int) -> Picture | None:
        """Returns the rendered picture at a frame."""
        if self.size is None or scene.camera is None:
            return None
        return _bytes(render(scene, trajectory, self.size, frames=[frame])[0])

    @torch.no_grad()
    def marked_simulation(
        self, picture: Picture, scene: Scene, trajectory: Trajectory, frame: int, shown: Sequence[str]
    ) -> Picture:
        """Returns a rendered picture with the tracked points where the simulation has them."""
        picture = picture.copy()
        for tracks in self.tracks if "tracks" in shown else ():
            if tracks.pixels is not None:
                places = tracks.projected(tracks.view(scene), tracks.simulated(scene, trajectory[frame]))
                mark(picture, places.reshape(-1, 2).numpy(), tracks.size)
        return picture

    @torch.no_grad()
    def points(self, scene: Scene, trajectory: Trajectory, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns tracked points in space and where the simulation has them [m], [N, 3] each.

        A point that was seen by a camera is on its line of sight, at the depth of the simulated one.
        """
        observed, simulated = [np.zeros((0, 3))], [np.zeros((0, 3))]
        for tracks in self.tracks:
            if frame >= tracks.frames:
                continue
            places = tracks.simulated(scene, trajectory[frame]).reshape(-1, 3).double()
            measured: Any = tracks.positions if tracks.pixels is None else tracks.pixels
            found = measured[frame].double()
            if tracks.pixels is not None:
                found = _at_depth(tracks, scene, found, places)
            seen = ~torch.isnan(found).any(-1)
            observed.append(found[seen].numpy())
            simulated.append(places[seen].numpy())
        return np.concatenate(observed), np.concatenate(simulated)

    def _mask(self, masks: Masks, frame: int) -> torch.Tensor:
        """Covered shares of the pixels at a frame, [h, w]."""
        return masks.images[min(frame, masks.frames - 1), ..., 0].nan_to_num(0.0).float()


def _at_depth(tracks: Tracks, scene: Scene, pixels: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Points on the lines of sight of pixels [K, 2], at the depths of other points [K, 3]."""
    camera = tracks.view(scene).camera
    if camera is None or tracks.size is None:
        return torch.full_like(places, torch.nan)
    matrix, eye = (x.reshape(-1, *x.shape[-k:])[0] for x, k in zip(_view(camera, tracks.size), (2, 1), strict=True))
    depth = ((places - eye) @ matrix[2])[:, None]
    image = torch.cat([pixels * depth, depth], -1)
    return eye + torch.linalg.solve(matrix, image.mT).mT


def _view(camera: Any, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    return projection(camera, size, torch.float64, torch.device("cpu"))


def _bytes(picture: torch.Tensor) -> Picture:
    """Returns a picture in bytes, enlarged by a whole factor if it is small: marks are finer than pixels."""
    values = (255 * picture.detach().clamp(0, 1)).round().byte().cpu().numpy()
    factor = -(-MIN_WIDTH // values.shape[1])
    return values.repeat(factor, 0).repeat(factor, 1)


def difference(observed: Picture, simulated: Picture) -> Picture:
    """Returns half the difference of two pictures, about grey."""
    return (127.5 + 0.5 * (simulated.astype(np.float32) - observed)).round().astype(np.uint8)


def overlay(observed: Picture, simulated: Picture) -> Picture:
    """Returns the mean of two pictures, in which what does not agree is seen twice."""
    return (0.5 * (simulated.astype(np.float32) + observed)).round().astype(np.uint8)


def mark(picture: Picture, places: np.ndarray, size: tuple[int, int] | None) -> None:
    """Draws circles around places (x, y) [K, 2], in pixels of an image of `size`; those that are NaN are left out."""
    height, width = picture.shape[:2]
    factor = np.array([1.0, 1.0]) if size is None else np.array([width / size[1], height / size[0]])
    radius, eighths = max(2, round(0.015 * max(height, width))), 8
    for x, y in places[np.isfinite(places).all(-1)] * factor - 0.5:  # cv2 counts from the middle of the first pixel
        center = (round(x * eighths), round(y * eighths))
        cv2.circle(picture, center, radius * eighths, TRACKED, 1, cv2.LINE_AA, 3)


def outline(picture: Picture, mask: np.ndarray) -> None:
    """Draws the outline of a mask [h, w], scaled to the picture."""
    height, width = picture.shape[:2]
    inside = (cv2.resize(mask, (width, height), interpolation=cv2.INTER_LINEAR) > 0.5).astype(np.uint8)
    contours, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(picture, contours, -1, OUTLINE, 1, cv2.LINE_AA)
