"""Independent tasks: in this process, on several, and on a Ray cluster of two nodes of which one is lost."""

import time
from functools import partial
from pathlib import Path

import pytest
import torch

import gradsim as gs
from gradsim.datasets.items import Settings, item_path, write_item, write_manifest
from gradsim.parallel import TaskFailed, Workers, run_tasks
from gradsim.scene.errors import OutOfRange

TINY = Settings("rigid", seed=3, side=16, frames=3)


def square(number):
    return number**2, torch.get_num_threads()


def refuse(number):
    if number == 2:
        raise OutOfRange("number", number, "must not be 2")
    return number


def test_in_one_process_in_order():
    assert [(task, result[0]) for task, result in run_tasks(square, range(4))] == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_on_two_processes_with_one_thread_each():
    results = dict(run_tasks(square, range(5), Workers(jobs=2)))
    assert results == {k: (k**2, 1) for k in range(5)}


def test_closures_are_sent_to_workers():
    offset = 10
    results = dict(run_tasks(lambda number: number + offset, range(3), Workers(jobs=2)))
    assert results == {0: 10, 1: 11, 2: 12}


def test_the_error_of_a_task_is_reported():
    with pytest.raises(TaskFailed, match="number = 2: must not be 2"):
        list(run_tasks(refuse, range(4), Workers(jobs=2)))


def test_preparation_comes_first(tmp_path):
    file = tmp_path / "prepared"
    results = dict(run_tasks(lambda task: file.exists(), range(3), Workers(jobs=2), prepare=file.touch))
    assert all(results.values())


def test_tasks_are_read_as_they_are_needed():
    """A data set of millions of videos is not listed in advance."""
    read = []

    def numbers():
        for number in range(1000):
            read.append(number)
            yield number

    results = run_tasks(square, numbers(), Workers(jobs=2))
    next(results)
    assert len(read) < 100
    results.close()


def test_invalid_workers():
    with pytest.raises(OutOfRange, match="jobs"):
        Workers(jobs=0)
    with pytest.raises(gs.InvalidInput, match="Ray cluster"):
        Workers(jobs=2, ray="auto")


@pytest.fixture
def cluster():
    """A Ray cluster of two nodes with one core each on this machine; tasks run on either."""
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        pytest.skip("Ray is not installed: pip install 'gradsim[ray]'")
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = started.add_node(num_cpus=1)
    started.wait_for_nodes()
    try:
        yield started, second
    finally:
        ray.shutdown()
        started.shutdown()


def write_slowly(folder, log, number):
    """Makes an item of a data set after a line in the log and a pause in which the node may be lost."""
    import ray

    place = Path(folder) / item_path(number)
    if place.is_dir():
        return "existed"
    node = ray.get_runtime_context().get_node_id()
    (Path(log) / f"begin-{number}-{time.time_ns()}").write_text(node)
    time.sleep(0.4)
    write_item(Path(folder), TINY, number)
    (Path(log) / f"end-{number}-{time.time_ns()}").write_text(node)
    return node


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def events(log, kind, number):
    return [file for file in log.iterdir() if file.name.startswith(f"{kind}-{number}-")]


def test_a_lost_node_loses_no_item(cluster, tmp_path):
    """One of two nodes is killed in the middle. No finished item is lost or made again, interrupted ones are made
    again, and the files are bitwise those of one process."""
    nodes, second = cluster
    log, made, expected = tmp_path / "log", tmp_path / "made", tmp_path / "expected"
    log.mkdir()
    count = 12
    finished = []
    for number, _ in run_tasks(partial(write_slowly, made, log), range(count), Workers(ray=nodes.address)):
        finished.append(number)
        if len(finished) == 4:
            lost = second.node_id
            running = [n for n in range(count) if events(log, "begin", n) and not events(log, "end", n)]
            nodes.remove_node(second, allow_graceful=False)
    assert sorted(finished) == list(range(count))
    ends = [events(log, "end", number) for number in range(count)]
    assert [len(files) for files in ends] == [1] * count  # each was finished once
    begins = {number: events(log, "begin", number) for number in range(count)}
    interrupted = [number for number, files in begins.items() if len(files) > 1]
    assert interrupted, "no item was interrupted"
    assert set(interrupted) <= set(running)
    for number in interrupted:
        first, *_ = sorted(begins[number], key=lambda file: file.name)
        assert first.read_text() == lost  # it ran on the lost node, and then on the other
        assert ends[number][0].read_text() != lost
    assert any(file.read_text() == lost for files in ends for file in files)  # both nodes worked
    for number in range(count):
        write_item(expected, TINY, number)
    for folder in (made, expected):
        write_manifest(folder, TINY, count)
    assert contents(made) == contents(expected)
