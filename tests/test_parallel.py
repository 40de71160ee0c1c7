"""Independent tasks: in this process, on several, and on a Ray cluster of two nodes of which one is lost."""

import time
from functools import partial
from pathlib import Path

import pytest
import torch

import gradsim as gs
from gradsim.datasets.compilation import build_kernels
from gradsim.datasets.items import Settings, item_path, write_item, write_manifest
from gradsim.parallel import TaskFailed, Workers, run_tasks
from gradsim.scene.errors import OutOfRange

# Workers have a low priority by default, and would hardly run beside other tests.
HEAD = {"num_cpus": 1, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}
PAUSE = 1.0  # before an item is written, in which its node may be lost [s]
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
    started = Cluster(initialize_head=True, head_node_args=HEAD)
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
    time.sleep(PAUSE)
    write_item(Path(folder), TINY, number)
    (Path(log) / f"end-{number}-{time.time_ns()}").write_text(node)
    return node


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def events(log, kind, number):
    return [file for file in log.iterdir() if file.name.startswith(f"{kind}-{number}-")]


def finished_on(log, node, numbers):
    """Numbers of the items that a node has finished."""
    return [n for n in numbers if any(file.read_text() == node for file in events(log, "end", n))]


def wait_for_work(log, node, numbers):
    """Waits until a node makes an item. Returns the numbers of those items."""
    for _ in range(600):
        begun = [n for n in numbers if any(file.read_text() == node for file in events(log, "begin", n))]
        if running := [n for n in begun if not events(log, "end", n)]:
            return running
        time.sleep(0.05)
    raise AssertionError("the node has no work")


def test_a_lost_node_loses_no_item(cluster, tmp_path):
    """One of two nodes is killed in the middle. No finished item is lost or made again, interrupted ones are made
    again, and the files are bitwise those of one process."""
    nodes, second = cluster
    log, made, expected = tmp_path / "log", tmp_path / "made", tmp_path / "expected"
    log.mkdir()
    count, finished, running = 8, [], []
    tasks = run_tasks(
        partial(write_slowly, made, log),
        range(count),
        Workers(ray=nodes.address),
        prepare=partial(build_kernels, "rigid"),
    )
    for number, _ in tasks:
        finished.append(number)
        if not running and finished_on(log, second.node_id, range(count)):
            running = wait_for_work(log, second.node_id, range(count))
            nodes.remove_node(second, allow_graceful=False)
    assert sorted(finished) == list(range(count))
    ends = [events(log, "end", number) for number in range(count)]
    assert [len(files) for files in ends] == [1] * count  # each was finished once
    begins = {number: events(log, "begin", number) for number in range(count)}
    interrupted = [number for number, files in begins.items() if len(files) > 1]
    assert interrupted, "no item was interrupted"
    assert interrupted == running  # and nothing else was begun twice
    for number in interrupted:
        first, *_ = sorted(begins[number], key=lambda file: file.name)
        assert first.read_text() == second.node_id  # it ran on the lost node, and then on the other
        assert ends[number][0].read_text() != second.node_id
    for number in range(count):
        write_item(expected, TINY, number)
    for folder in (made, expected):
        write_manifest(folder, TINY, count)
    assert contents(made) == contents(expected)
