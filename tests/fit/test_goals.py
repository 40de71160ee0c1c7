"""Goals: residuals of images and states, frames, and invalid input."""

import pytest
import torch

import gradsim as gs
from gradsim.fit.goals import frame_indices
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongShape, WrongType

SIZE = (12, 16)
BLUR = gs.Blur()


def thrown(velocity=(1.0, 0.5, 0.0)) -> gs.Scene:
    ball = gs.Rigid(
        "ball", gs.meshes.icosphere(0.3, 1), mass=1.0, velocity=velocity, look=gs.Look(color=(0.8, 0.4, 0.1))
    )
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0))
    return gs.Scene([ball], camera=camera, gravity=(0.0, -1.0, 0.0), background=(0.0, 0.0, 0.0))


def simulated(scene):
    return gs.simulate(scene, frames=4, fps=4, substeps=4)


@pytest.fixture(scope="module")
def motion():
    scene = thrown()
    trajectory = simulated(scene)
    return scene, trajectory, gs.render(scene, trajectory, SIZE, alpha=True)


@pytest.mark.parametrize("channels", [slice(3, 4), slice(0, 3), slice(0, 4)], ids=["silhouette", "colours", "both"])
def test_a_motion_that_renders_to_the_image_has_zero_residuals(motion, channels):
    scene, trajectory, video = motion
    goal = gs.GoalImage(video[-1, ..., channels])
    assert goal.size == SIZE
    torch.testing.assert_close(goal.render(scene, trajectory), video[-1:, ..., channels], rtol=0, atol=1e-15)
    assert float(goal.residuals(scene, trajectory, BLUR).abs().max()) < 1e-15
    early = gs.GoalImage(video[0, ..., channels])
    assert float(early.residuals(scene, trajectory, BLUR).abs().max()) > 1e-3


def test_negative_frames_count_from_the_end(motion):
    scene, trajectory, video = motion
    for frames in ([1, 3], [-3, -1], [1, -1]):
        goal = gs.GoalImage(video[[1, 3]], frames=frames)
        assert float(goal.residuals(scene, trajectory, BLUR).abs().max()) < 1e-15
    same = gs.GoalImage(video[2], frames=[2, 2])
    assert same.images.shape == (2, *SIZE, 4)
    assert frame_indices([0, -1, -4], 4) == [0, 3, 0]
    for frame in (4, -5):
        with pytest.raises(OutOfRange, match="there are 4 frames"):
            gs.GoalImage(video[0], frames=[frame]).residuals(scene, trajectory, BLUR)


def test_the_last_frames_of_a_video_are_used(motion):
    _, _, video = motion
    goal = gs.GoalImage(gs.Video(video[..., :3]), frames=[-2, -1])
    torch.testing.assert_close(goal.images, video[2:, ..., :3], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("image", "error", "match"),
    [
        (torch.zeros(8, 8), WrongShape, r"must be \[H, W, C\]"),
        (torch.zeros(8, 8, 2), WrongShape, r"C = 1 \(silhouette\)"),
        (torch.zeros(3, 8, 8, 1), WrongShape, "3 images.*one per frame: 1"),
        (torch.zeros(8, 8, 1, dtype=torch.uint8), WrongType, "floating-point"),
        ([[0.0]], WrongType, "floating-point"),
        (torch.full((8, 8, 1), torch.nan), InvalidInput, "finite"),
    ],
)
def test_invalid_images(image, error, match):
    with pytest.raises(error, match=match):
        gs.GoalImage(image)


def test_squared_state_residuals_sum_to_the_weighted_mean(motion):
    scene, trajectory, _ = motion
    target = torch.zeros(3, dtype=torch.float64)
    goal = gs.GoalState({"ball.position": target}, frames=[1, -1], weight=2.5)
    r = goal.residuals(scene, trajectory, BLUR)
    by_hand = 2.5 * (trajectory["ball"].position[[1, 3]] ** 2).mean()
    assert float((r * r).sum()) == pytest.approx(float(by_hand), rel=1e-13)


def test_several_states_at_several_frames(motion):
    scene, trajectory, _ = motion
    target = trajectory["ball"].velocity[1:] + 0.5
    goal = gs.GoalState({"ball.velocity": target, "ball.position": trajectory["ball"].position[1:]}, frames=[1, 2, 3])
    r = goal.residuals(scene, trajectory, BLUR)
    assert r.shape == (18,)
    assert float((r * r).sum()) == pytest.approx(0.25, rel=1e-13)


def test_nan_targets_are_ignored(motion):
    scene, trajectory, _ = motion
    nan = torch.nan
    goal = gs.GoalState({"ball.velocity": torch.tensor([nan, 0.0, nan])}, frames=[0, 1])
    r = goal.residuals(scene, trajectory, BLUR)
    by_hand = (trajectory["ball"].velocity[:2, 1] ** 2).mean()
    assert r.shape == (2,)
    assert float((r * r).sum()) == pytest.approx(float(by_hand), rel=1e-13)


def test_batch_of_worlds(motion):
    _, trajectory, video = motion
    velocities = torch.tensor([[1.0, 0.5, 0.0], [0.5, 0.0, 0.2]], dtype=torch.float64)
    scene = thrown(velocities)
    worlds = simulated(scene)
    for goal, smallest in (
        (gs.GoalImage(video[-1]), 1e-3),
        (gs.GoalState({"ball.vertices": trajectory["ball"].vertices[-1]}), 1e-3),
    ):
        r = goal.residuals(scene, worlds, BLUR)
        assert r.shape[0] == 2
        assert float(r[0].abs().max()) < 1e-12
        assert float(r[1].abs().max()) > smallest


def test_unknown_states_are_named(motion):
    scene, trajectory, _ = motion
    with pytest.raises(InvalidInput, match="has no 'height'"):
        gs.GoalState({"ball.height": torch.zeros(1)}).residuals(scene, trajectory, BLUR)
    with pytest.raises(UnknownName, match="cube"):
        gs.GoalState({"cube.position": torch.zeros(3)}).residuals(scene, trajectory, BLUR)
    with pytest.raises(OutOfRange, match="there are 4 frames"):
        gs.GoalState({"ball.position": torch.zeros(3)}, frames=[4]).residuals(scene, trajectory, BLUR)
