"""A full disk is reported with the name of the file, and leaves nothing half written."""

import resource
import signal

import pytest
import torch

import gradsim as gs
from gradsim.fit.checkpoint import write_checkpoint


@pytest.fixture
def small_disk():
    """No file may grow beyond 4 kB, which fails as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


WRITERS = {
    "checkpoint.pt": lambda file: write_checkpoint(file, {"points": torch.zeros(1000, dtype=torch.float64)}),
    "video.npy": lambda file: gs.save_video(file, torch.zeros(4, 32, 32, 3), fps=10),
    "video.npz": lambda file: gs.save_video(file, torch.zeros(4, 32, 32, 3), fps=10),
    "mesh.obj": lambda file: gs.meshes.save_mesh(gs.meshes.icosphere(1.0, 3), file),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_file_is_named(tmp_path, small_disk, name):
    with pytest.raises(OSError, match=name):
        WRITERS[name](tmp_path / name)
    assert not list(tmp_path.iterdir())
