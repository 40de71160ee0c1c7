"""Tracks and masks in the viewer: marks at the measured pixels, points on the lines of sight, outlines of masks."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.view.observed import OUTLINE, TRACKED, Observed

SIZE = (48, 64)


@pytest.fixture(scope="module")
def motion():
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=1.0, position=(-0.3, 0.6, 0.2), velocity=(1.0, 0.0, 0.0))
    scene = gs.Scene([cube], camera=gs.Camera(eye=(0.2, 1.0, 3.0), target=(0.0, 0.4, 0.0), fov=40))
    return scene, gs.simulate(scene, frames=4, fps=20, substeps=8)


def tracks_of(scene, trajectory, shift=0.0):
    """Image tracks of two corners, shifted [px], and one of them not seen in the last frame."""
    points = [gs.Vertex("cube", 0), gs.Vertex("cube", 6)]
    blank = gs.Tracks(points, torch.zeros(4, 2, 2), SIZE)
    pixels = blank.projected(scene, blank.simulated(scene, trajectory)) + shift
    pixels[3, 1] = torch.nan
    return gs.Tracks(points, pixels, SIZE)


def test_tracked_points_are_on_their_lines_of_sight(motion):
    exact = Observed(observations=[tracks_of(*motion)])
    for frame in range(4):
        observed, simulated = exact.points(*motion, frame)
        assert len(observed) == (1 if frame == 3 else 2)
        assert np.allclose(observed, simulated, atol=1e-9)
    shifted = tracks_of(*motion, shift=2.0)
    observed, simulated = Observed(observations=[shifted]).points(*motion, 0)
    back = shifted.projected(motion[0], torch.as_tensor(observed)[None])[0]
    assert np.allclose(back, shifted.pixels[0], atol=1e-9)
    assert (np.linalg.norm(observed - simulated, axis=1) > 0.01).all()


def test_positions_in_space_are_taken_as_they_are(motion):
    scene, trajectory = motion
    centers = trajectory["cube"].position[:, None] + 0.1
    observed, simulated = Observed(observations=[gs.Tracks([gs.Center("cube")], positions=centers)]).points(
        scene, trajectory, 2
    )
    assert np.allclose(observed - simulated, 0.1)


def colored(picture, color):
    """Columns and rows of pixels of about one colour, [N, 2]."""
    return np.argwhere(np.abs(picture.astype(int) - color).sum(-1) < 150)[:, ::-1]


def test_pictures_are_marked_at_the_pixels(motion):
    tracks = tracks_of(*motion)
    observed = Observed(observations=[tracks])
    picture = observed.picture(3)
    factor = 4  # small pictures are enlarged
    assert picture.shape == (factor * SIZE[0], factor * SIZE[1], 3)
    marked = observed.marked(picture, 3, ["tracks"])
    middle = (colored(marked, TRACKED).mean(0) + 0.5) / factor
    assert np.allclose(middle, tracks.pixels[3, 0], atol=0.2)
    assert (observed.marked(picture, 3, []) == picture).all()
    simulated = observed.simulated(*motion, 3)
    assert len(colored(observed.marked_simulation(simulated, *motion, 3, ["tracks"]), TRACKED)) > 8


def test_masks_are_outlined(motion):
    coverage = gs.render(*motion, SIZE, alpha=True)[..., 3].clamp(0, 1)
    observed = Observed(observations=[gs.Masks(coverage)])
    marked = observed.marked(observed.picture(1), 1, ["masks"])
    places = colored(marked, OUTLINE)
    inside = np.argwhere(coverage[1].numpy() > 0.5)[:, ::-1]
    assert np.abs(places.min(0) / 4 - inside.min(0)).max() <= 1
    assert np.abs(places.max(0) / 4 - inside.max(0) - 0.75).max() <= 1


def test_other_observations_are_refused():
    with pytest.raises(gs.errors.WrongType, match=r"gs\.Tracks and gs\.Masks"):
        Observed(observations=[gs.States({"cube.position": torch.zeros(3, 3)})])


def test_viewer_shows_them_at_every_frame(motion):
    pytest.importorskip("viser")
    scene, trajectory = motion
    coverage = gs.render(scene, trajectory, SIZE, alpha=True)[..., 3].clamp(0, 1)
    viewer = gs.view(scene, trajectory, observations=[tracks_of(*motion), gs.Masks(coverage)], port=8207)
    try:
        assert set(viewer.controls.boxes) >= {"tracks", "masks"}
        assert viewer._handles["/tracks/points"].points.shape == (2, 3)
        viewer.controls.frame = 3
        assert viewer._handles["/tracks/points"].points.shape == (1, 3)
        viewer.controls.boxes["tracks"].value = False
        assert "/tracks/points" not in viewer._handles
    finally:
        viewer.stop()
