"""What SECURITY.md promises: files are data and stay in their folder, nothing opens a connection, pages are local."""

from __future__ import annotations

import contextlib
import csv
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.datasets import VideoDataset
from gradsim.footage.focal import focal_length
from gradsim.footage.picking.server import PickServer
from gradsim.scene.errors import GradsimError
from gradsim.view.viewer import Viewer

ROOT = Path(__file__).resolve().parent.parent.parent
BALL = "bodies: [{ball: {name: ball, radius: 0.1, mass: %s}}]\n"
RIGID = "bodies: [{rigid: {name: body, mass: 1.0, mesh: {file: %s}}}]\n"


def test_every_promise_names_tests_that_exist():
    rows = re.findall(r"^\| (.+?) \| (`tests.+?) \|$", (ROOT / "SECURITY.md").read_text(), re.M)
    assert len(rows) >= 15
    for promise, names in rows:
        for file, test in re.findall(r"`([^`]+)::(\w+)`", names) or pytest.fail(promise):
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), f"{promise}: {file}::{test}"


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_run_no_code(tmp_path, suffix):
    mark, file = tmp_path / "executed", tmp_path / f"array{suffix}"
    bomb = np.array([Bomb(mark)], dtype=object)
    (np.save if suffix == ".npy" else np.savez)(file, bomb)
    with pytest.raises(ValueError, match="pickle"):
        np.load(file, allow_pickle=False)["arr_0"]
    scene = tmp_path / "scene.yaml"
    scene.write_text(BALL % f"{{file: array{suffix}, key: arr_0}}")
    for attempt in (lambda: gs.load_scene(scene), lambda: gs.load_video(file, fps=10.0)):
        with pytest.raises(GradsimError):
            attempt()
    assert not mark.exists()


def test_checkpoints_run_no_code(tmp_path):
    mark, file = tmp_path / "executed", tmp_path / "search.pt"
    torch.save(Bomb(mark), file)
    ball = gs.Ball("ball", radius=0.1, mass=1.0, velocity=(gs.unknown(1.0), 0.0, 0.0))
    positions = torch.zeros(3, 1, 3, dtype=torch.float64)
    tracks = gs.Tracks([gs.Center("ball")], positions=positions, noise=0.1)
    with pytest.raises(gs.InvalidInput, match="checkpoint"):
        gs.estimate(gs.Scene([ball]), tracks, fps=10, checkpoint=file)
    with pytest.raises(gs.InvalidInput, match="checkpoint"):
        gs.minimize(lambda scene: torch.zeros(1), gs.Scene([ball]), checkpoint=file)
    assert not mark.exists()


def test_plugins_of_robots_are_left_out(tmp_path):
    pytest.importorskip("mujoco")
    file = tmp_path / "robot.xml"
    body = '<body name="b"><joint/><geom size="0.1"/></body>'
    file.write_text(f'<mujoco><extension><plugin plugin="evil"/></extension><worldbody>{body}</worldbody></mujoco>')
    with pytest.warns(gs.RobotWarning, match="extension"):
        robot = gs.load_robot(file)
    assert not robot.source.root.findall("extension")


def test_a_robot_writes_no_log(tmp_path, monkeypatch, capfd):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "robot.xml"
    file.write_text(
        '<mujoco><worldbody><body name="b" pos="nan 0 0"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    with warnings.catch_warnings(record=True) as caught, contextlib.suppress(GradsimError):
        warnings.simplefilter("always")
        gs.load_robot(file)
    assert any(item.category is gs.RobotWarning and "NaN" in str(item.message) for item in caught)
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["../secret.npy", "{folder}/secret.npy", "link.npy", "a/../../secret.npy"])
def test_a_scene_reads_only_its_folder(tmp_path, name):
    np.save(tmp_path / "secret.npy", np.array(2.0))
    (tmp_path / "secret.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n")
    inside = tmp_path / "inside"
    (inside / "a").mkdir(parents=True)
    for suffix in ("npy", "obj"):
        (inside / f"link.{suffix}").symlink_to(tmp_path / f"secret.{suffix}")
    given = name.format(folder=tmp_path)
    texts = (BALL % f"{{file: {given}}}", RIGID % given.replace(".npy", ".obj"))
    for text in texts:
        (inside / "scene.yaml").write_text(text)
        with pytest.raises(gs.SceneFileError, match="must lie in the folder of the scene file"):
            gs.load_scene(inside / "scene.yaml")
        assert gs.load_scene(inside / "scene.yaml", folder=tmp_path).bodies


def test_the_command_line_gives_a_folder(tmp_path, capsys, monkeypatch):
    from gradsim.cli.app import main

    np.save(tmp_path / "mass.npy", np.array(2.0))
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "scene.yaml").write_text(
        BALL % "{file: ../mass.npy}" + "camera: {eye: [0, 1, 3], target: [0, 0, 0]}\n"
    )
    monkeypatch.chdir(tmp_path)
    for given, code in (([], 2), (["--folder", "."], 0), ([], 2)):
        command = ["gradsim", *given, "simulate", "inside/scene.yaml", "--frames", "2", "--size", "8x8", "-o", "a.mp4"]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == code, capsys.readouterr().err


def test_a_data_set_reads_only_its_folder(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    np.savez(tmp_path / "secret.npz", time=np.zeros(2))
    settings = {"format": 1, "kind": "rigid", "camera": {}}
    (folder / "dataset.json").write_text(json.dumps(settings))
    row = {
        "name": "0",
        "object": "box",
        "split": "train",
        "video": "../secret.npz",
        "states": "../secret.npz",
        "mass": "1",
    }
    with (folder / "manifest.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*row, "scene"])
        writer.writeheader()
        writer.writerow({**row, "scene": "../scene.yaml"})
    videos = VideoDataset(folder, split="all")
    for attempt in (lambda: videos[0], lambda: videos.states_of(0), lambda: videos.scene_file(0)):
        with pytest.raises(gs.InvalidInput, match="must be a file in"):
            attempt()


@pytest.fixture
def server():
    """A server on this machine; `server.requests` lists what was asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.requests.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    found.requests = []
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


PLAYLIST = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1.0,\n{name}\n#EXT-X-ENDLIST\n"
NAMING = {
    "playlist.mp4": PLAYLIST,
    "playlist.m3u8": PLAYLIST,
    "list.mp4": "ffconcat version 1.0\nfile '{name}'\n",
    "stream.mp4": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
    "manifest.mp4": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{name}</BaseURL></MPD>',
    "mesh.gltf": '{"asset": {"version": "2.0"}, "buffers": [{"uri": "{name}", "byteLength": 64}], "bufferViews": '
    '[], "accessors": [], "meshes": [], "nodes": [], "scenes": [{"nodes": []}], "scene": 0}',
    "mesh.obj": "mtllib {name}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "mesh.ply": "ply\nformat ascii 1.0\ncomment TextureFile {name}\nelement vertex 0\nelement face 0\nend_header\n",
    "scene.yaml": RIGID.replace("%s", "{name}"),
    "robot.xml": '<mujoco><asset><mesh name="m" file="{name}"/></asset><worldbody><body><geom type="mesh" mesh="m"/>'
    "</body></worldbody></mujoco>",
    "robot.urdf": '<robot name="r"><link name="a"><visual><geometry><mesh filename="{name}"/></geometry></visual>'
    "</link></robot>",
}
LOADERS = {".gltf": gs.load_mesh, ".obj": gs.load_mesh, ".ply": gs.load_mesh, ".yaml": gs.load_scene}
LOADERS |= {".xml": gs.load_robot, ".urdf": gs.load_robot}


@pytest.mark.parametrize("file", NAMING)
@pytest.mark.filterwarnings("ignore::gradsim.RobotWarning")
def test_no_file_opens_a_connection(tmp_path, server, file):
    suffix = ".obj" if file.startswith("robot") else Path(file).suffix
    address = f"http://127.0.0.1:{server.server_port}/secret{suffix}"
    path = tmp_path / file
    path.write_text(NAMING[file].replace("{name}", address))
    load = LOADERS.get(path.suffix, lambda path: gs.load_video(path, fps=10.0))
    for attempt in (lambda: load(path), lambda: load(address)):
        try:
            attempt()
        except GradsimError:
            continue
        assert file == "mesh.obj"  # a mesh without its material
    assert server.requests == []


@pytest.mark.parametrize("file", ["playlist.mp4", "list.mp4"])
def test_metadata_are_read_of_the_same_file_only(tmp_path, file):
    gs.save_video(tmp_path / "secret.mp4", torch.zeros(2, 16, 16, 3), 10.0)
    (tmp_path / file).write_text(NAMING[file].replace("{name}", "secret.mp4"))
    with pytest.raises(gs.errors.VideoFileError, match="unreadable"):
        focal_length(tmp_path / file)


OFFLINE = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(refuse)
import torch
import gradsim as gs
from gradsim.report.fit_page import write_report

def thrown(speed):
    ball = gs.Ball("ball", radius=0.2, mass=1.0, velocity=(speed, 1.0, 0.0))
    return gs.Scene([ball], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))

scene = thrown(0.5)
video = gs.render(scene, gs.simulate(scene, frames=4, fps=20), (16, 16))
gs.save_video(sys.argv[1] + "/video.mp4", video, 20.0)
gs.load_video(sys.argv[1] + "/video.mp4")
fit = gs.estimate(thrown(gs.unknown(0.4, low=0.0, high=1.0)), video, fps=20, corrections=0)
write_report(fit, sys.argv[1])
print("done")
"""


def test_no_connection_is_opened(tmp_path):
    command = [sys.executable, "-c", OFFLINE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ, check=False)
    assert done.stdout.endswith("done\n"), done.stderr[-1000:]


def test_pages_listen_on_the_loopback_address():
    server = PickServer("<html></html>", lambda number: b"", lambda answer: None)
    try:
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.server_close()
    assert inspect.signature(Viewer).parameters["host"].default == "127.0.0.1"
