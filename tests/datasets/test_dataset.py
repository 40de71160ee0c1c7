"""Data sets: what is drawn, the files, that they depend on the seed alone, resuming, and loading into PyTorch."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import gradsim as gs
from gradsim.datasets import deformable, rigid
from gradsim.datasets.items import Settings, item_path, split_of
from gradsim.datasets.objects import OBJECTS, mesh, volume
from gradsim.datasets.recording import record
from gradsim.datasets.sample import draw_truth, generators
from gradsim.parallel import Workers

TINY = Settings("rigid", seed=1, side=16, frames=4)
VIDEOS = 6


def contents(folder):
    """All files by name, hidden ones included."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small data set, made in one process on two threads."""
    place = tmp_path_factory.mktemp("dataset") / "rigid"
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert gs.datasets.generate(place, VIDEOS, TINY) == VIDEOS
    finally:
        torch.set_num_threads(threads)
    return place


def test_draws_lie_in_the_papers_ranges():
    samples = [rigid.sample(0, number) for number in range(80)]
    assert {sample.object for sample in samples} == set(OBJECTS)
    for path, (low, high) in rigid.RANGES.items():
        values = np.array([sample.truth[path] for sample in samples])
        assert low <= values.min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < values.max() <= high
        guesses = np.array([sample.scene.unknowns[path].guess for sample in samples])
        assert low <= guesses.min() < guesses.max() <= high


def test_a_guess_says_nothing_about_the_truth():
    pairs = [[draw_truth(rng, rigid.RANGES)["ground.ke"] for rng in generators(0, number)] for number in range(2000)]
    assert abs(np.corrcoef(np.transpose(pairs))[0, 1]) < 4 / np.sqrt(2000)


def test_a_body_has_the_drawn_scale_and_starts_above_the_ground():
    for number in range(20):
        sample = rigid.sample(5, number)
        (body,) = sample.scene.bodies
        factors = np.asarray(body.size) / np.ptp(mesh(sample.object).vertices, axis=0)
        assert (factors >= 0.7).all()
        assert (factors <= 1.3).all()
        trajectory = gs.simulate(sample.true_scene, frames=1)
        lowest = float(trajectory["body"].vertices[..., 1].min())
        assert 0.3 <= lowest <= 1.2
        mass = sample.truth["body.density"] * volume(mesh(sample.object)) * factors.prod()
        momentum = np.asarray(body.pushes[0].impulse) / mass  # change of velocity [m/s]
        assert np.linalg.norm(momentum) < 3.0


def test_objects_stay_in_view():
    """The centre of the object is in the picture in at least 95 of 100 frames, over videos of all objects."""
    inside = []
    for number in range(0, 40, 5):
        sample = rigid.sample(0, number)
        motion, _ = record(sample.true_scene, sample.time)
        center = motion["body"].center_of_mass
        assert torch.isfinite(center).all()
        inside.append(in_view(center, sample.scene.camera))
    assert np.concatenate(inside).mean() > 0.95


def in_view(points, camera):
    """Whether points [T, 3] are in a square picture, [T]."""
    eye, target = np.asarray(camera.eye), np.asarray(camera.target)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    seen = points.numpy() - eye
    half = np.tan(np.radians(float(camera.fov) / 2)) * (seen @ forward)
    return (np.abs(seen @ right) < half) & (np.abs(seen @ np.cross(right, forward)) < half)


def test_deformable_kinds_take_turns_and_are_finite():
    for number, name in enumerate(("beam", "ball", "cloth")):
        sample = deformable.sample(2, number)
        assert sample.object == name
        motion, _ = record(sample.true_scene, sample.time)
        moved = motion[name].vertices - motion[name].vertices[:1]
        assert torch.isfinite(moved).all()
        assert 0.02 < float(moved.norm(dim=-1).max()) < 5.0


def test_splits():
    names = [split_of(number) for number in range(10_000)]
    assert (names.count("train"), names.count("test"), names.count("extra")) == (800, 200, 9_000)
    assert set(names[1000:]) == {"extra"}


def test_files_of_an_item(folder):
    place = folder / item_path(2)
    assert sorted(file.name for file in place.iterdir()) == [
        "item.json",
        "scene.npz",
        "scene.yaml",
        "states.npz",
        "video.mkv",
    ]
    item = json.loads((place / "item.json").read_text())
    sample = TINY.sample(2)
    assert item["truth"] == sample.truth
    assert item["object"] == sample.object
    settings = json.loads((folder / "dataset.json").read_text())
    assert settings["kind"] == "rigid"
    assert settings["camera"]["all"]["eye"] == [0.4, 2.8, 9.0]


def test_video_and_states_are_those_of_the_stored_scene(folder):
    """The scene file with the true values gives the stored states, and the stored video to half a grey level."""
    data = gs.datasets.VideoDataset(folder, states=True)
    file = data.scene_file(2)
    scene = file.scene.with_values(data.truth(2))
    motion, (video,) = record(scene, file.time, 16)
    item = data[2]
    assert torch.equal(item["states"]["body.position"], motion["body"].position)
    assert torch.equal(item["states"]["body.rotation"], motion["body"].rotation)
    assert float((item["video"] - video).abs().max()) <= 0.5 / 255 + 1e-6
    assert float(video.std()) > 0.01  # it shows something


def test_two_workers_give_identical_files(folder, tmp_path):
    gs.datasets.generate(tmp_path / "two", VIDEOS, TINY, Workers(jobs=2))
    assert contents(tmp_path / "two") == contents(folder)


KILLED = """
import os, signal, sys
from gradsim.cli import main
from gradsim.datasets import items

calls, save = [], items.save_scene

def save_or_die(*args, **kwargs):
    calls.append(args)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    save(*args, **kwargs)

items.save_scene = save_or_die
sys.argv = ["gradsim", "dataset", "rigid", *sys.argv[1:]]
main()
"""


def test_a_killed_run_is_resumed(folder, tmp_path):
    """The process is killed with SIGKILL while it writes the third video. The rest makes the same files."""
    place = tmp_path / "killed"
    options = ["--videos", str(VIDEOS), "--seed", "1", "--size", "16", "--frames", "4", "--out", str(place)]
    ended = subprocess.run([sys.executable, "-c", KILLED, *options], stderr=subprocess.DEVNULL, check=False)
    assert ended.returncode == -signal.SIGKILL
    done = {file: file.stat().st_mtime_ns for file in place.glob("items/*/0*/*")}
    assert len(done) == 2 * 5
    assert len(list(place.glob("items/*/.*"))) == 1  # the unfinished one
    with pytest.raises(gs.InvalidInput, match="is not complete"):
        gs.datasets.VideoDataset(place)
    assert gs.datasets.generate(place, VIDEOS, TINY) == VIDEOS - 2
    assert contents(place) == contents(folder)
    assert not list(place.glob("items/*/.*"))
    assert all(file.stat().st_mtime_ns == written for file, written in done.items())  # none was made again


def test_a_data_set_grows(folder, tmp_path):
    place = tmp_path / "grown"
    assert gs.datasets.generate(place, 2, TINY) == 2
    assert len(gs.datasets.VideoDataset(place)) == 2
    assert gs.datasets.generate(place, VIDEOS, TINY) == VIDEOS - 2
    assert contents(place) == contents(folder)


def test_other_settings_are_refused(folder):
    with pytest.raises(gs.InvalidInput, match="seed = 2: the data set in .* has 1"):
        gs.datasets.generate(folder, VIDEOS, Settings("rigid", seed=2, side=16, frames=4))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "soft"}, "must be one of rigid, deformable"),
        ({"kind": "rigid", "codec": "gif"}, "must be one of ffv1, h264"),
        ({"kind": "rigid", "side": 4}, "must be at least 8"),
        ({"kind": "rigid", "side": 15, "codec": "h264"}, "must be even"),
        ({"kind": "rigid", "frames": 1}, "must be at least 2"),
    ],
)
def test_invalid_settings(arguments, text):
    with pytest.raises(gs.InvalidInput, match=text):
        Settings(**arguments)


def test_loading_with_a_data_loader(folder):
    data = gs.datasets.VideoDataset(folder, states=True)
    assert data.parameter_names == list(rigid.RANGES)
    batches = list(DataLoader(data, batch_size=4, num_workers=0))
    assert [len(batch["name"]) for batch in batches] == [4, 2]
    first = batches[0]
    assert first["video"].shape == (4, 4, 16, 16, 3)
    assert first["video"].dtype == torch.float32
    assert first["parameters"].shape == (4, 5)
    assert torch.equal(first["parameters"], data.parameters[:4])
    assert first["states"]["body.rotation"].shape == (4, 4, 4)
    assert first["parameters"][1, 0] == TINY.sample(1).truth["body.density"]


def test_selection_of_videos(folder):
    train, test = (gs.datasets.VideoDataset(folder, split) for split in ("train", "test"))
    assert (len(train), len(test)) == (5, 1)
    assert test[0]["name"] == "0000004"
    everything = gs.datasets.VideoDataset(folder)
    name = everything.objects[0]
    chosen = gs.datasets.VideoDataset(folder, objects=[name], size=(8, 8), frames=slice(0, None, 2))
    assert 0 < len(chosen) < len(everything)
    assert chosen[0]["video"].shape == (2, 8, 8, 3)
    assert chosen.objects[chosen[0]["object"]] == name
    with pytest.raises(gs.InvalidInput, match="split = dev: must be one of train"):
        gs.datasets.VideoDataset(folder, "dev")
    with pytest.raises(gs.InvalidInput, match="must be among"):
        gs.datasets.VideoDataset(folder, objects=["cow"])


def test_a_folder_without_a_data_set(tmp_path):
    with pytest.raises(gs.InvalidInput, match="made by `gradsim dataset`"):
        gs.datasets.VideoDataset(tmp_path)


def test_deformable_data_set(tmp_path):
    """Parameters of other objects are NaN; vectors have a column for each component."""
    place = tmp_path / "deformable"
    gs.datasets.generate(place, 3, Settings("deformable", side=16, frames=3))
    data = gs.datasets.VideoDataset(place, states=True)
    assert data.parameter_names[-3:] == [f"cloth.velocity[{k}]" for k in range(3)]
    beam, _, cloth = (data[k] for k in range(3))
    assert torch.isnan(beam["parameters"]).sum() == 6
    assert cloth["states"]["cloth.vertices"].shape == (3, 121, 3)
    velocity = cloth["states"]["cloth.velocities"][0].mean(0)
    assert torch.allclose(velocity, cloth["parameters"][-3:])
