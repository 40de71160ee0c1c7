"""Independent tasks on the processes of this machine, by joblib, or on the machines of a Ray cluster.

Every worker process uses one thread. A task runs again if its machine or its process is lost, so it has to leave its
results in one step, such as an atomic write, and to return at once if they exist.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from gradsim.allocator import keep_freed_memory
from gradsim.scene.errors import GradsimError, InvalidInput, MissingExtra, OutOfRange

Task = TypeVar("Task")
Result = TypeVar("Result")

RETRIES = 5  # of a task whose machine or process is lost
QUEUED = 4  # tasks submitted to a cluster for each of its cores, so that no worker waits for the next one


@dataclass(frozen=True)
class Workers:
    """Where tasks run.

    Args:
        jobs: Number of processes on this machine; 1 runs tasks in the calling process.
        ray: Address of a Ray cluster in place of processes on this machine: "auto" for the one this machine belongs to,
            or "HOST:PORT" or "ray://HOST:PORT". Needs the extra `ray`.
    """

    jobs: int = 1
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise OutOfRange("jobs", self.jobs, "must be at least 1")
        if self.ray is not None and self.jobs != 1:
            raise InvalidInput("jobs", self.jobs, "does not apply to a Ray cluster, which uses all of its cores")

    @property
    def in_process(self) -> bool:
        """Whether tasks run in the calling process."""
        return self.jobs == 1 and self.ray is None


class TaskFailed(GradsimError):
    """A task raised an error in a worker process; the message is that of the error."""


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: Workers = Workers(),
    *,
    prepare: Callable[[], object] | None = None,
) -> Iterator[tuple[Task, Result]]:
    """Yields tasks with their results, in the order of completion; in one process that is the order of the tasks.

    Args:
        function: Called with each task. Workers receive a copy of it, closures included.
        tasks: Small values, read as they are needed.
        workers: Processes or machines.
        prepare: Called once on each machine before its first task, such as to compile kernels; not in one process.

    Raises:
        TaskFailed: A task raised a GradsimError in a worker. Tasks that run at that time are cancelled.
        MissingExtra: Ray is not installed.
    """
    if workers.in_process:
        yield from ((task, function(task)) for task in tasks)
    elif workers.ray is None:
        yield from _run_local(function, tasks, workers.jobs, prepare)
    else:
        yield from _run_on_cluster(function, tasks, workers.ray, prepare)


@dataclass(frozen=True)
class _Failure:
    """The message of an error; the errors themselves cannot be pickled."""

    text: str


@dataclass(frozen=True)
class _OneThread(Generic[Task, Result]):
    """A function that runs on one thread in a worker process."""

    function: Callable[[Task], Result]

    def __call__(self, task: Task) -> tuple[Task, Result | _Failure]:
        torch.set_num_threads(1)
        keep_freed_memory()
        try:
            return task, self.function(task)
        except GradsimError as error:
            return task, _Failure(str(error))


def _unwrap(outcome: tuple[Task, Result | _Failure]) -> tuple[Task, Result]:
    task, result = outcome
    if isinstance(result, _Failure):
        raise TaskFailed(result.text)
    return task, result


def _run_local(
    function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int, prepare: Callable[[], object] | None
) -> Iterator[tuple[Task, Result]]:
    from joblib import Parallel, delayed, parallel_config

    if prepare is not None:
        prepare()
    run = delayed(_OneThread(function))
    with parallel_config(backend="loky", inner_max_num_threads=1):
        outcomes = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")(run(task) for task in tasks)
    try:
        yield from map(_unwrap, outcomes)
    finally:
        with _quiet_cancellation():
            outcomes.close()


@contextmanager
def _quiet_cancellation() -> Iterator[None]:
    """Silences what joblib says about cancelled tasks.

    Its thread that hands out tasks may look for one that was just cancelled, and ends with a KeyError.
    """
    previous = threading.excepthook

    def report(arguments: threading.ExceptHookArgs) -> None:
        thread = arguments.thread
        if thread is None or "ExecutorManagerThread" not in thread.name or arguments.exc_type is not KeyError:
            previous(arguments)

    threading.excepthook = report
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        threading.excepthook = previous


def _run_on_cluster(
    function: Callable[[Task], Result], tasks: Iterable[Task], address: str, prepare: Callable[[], object] | None
) -> Iterator[tuple[Task, Result]]:
    ray = _connected(address)
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
    if prepare is not None:
        _prepare_nodes(ray, prepare)
    shared = ray.put(_OneThread(function))
    waiting: set[Any] = set()
    queue = iter(tasks)
    try:
        while True:
            for _, task in zip(range(QUEUED * _cores(ray) - len(waiting)), queue, strict=False):
                waiting.add(remote.remote(shared, task))
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1)
            for reference in done:
                waiting.remove(reference)
                yield _unwrap(ray.get(reference))
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def _run(function: _OneThread[Task, Result], task: Task) -> tuple[Task, Result | _Failure]:
    return function(task)


def _connected(address: str) -> Any:
    """Returns the module ray, connected to a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise a new cluster reports its use over the network
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except ConnectionError as error:
            remedy = "no cluster was found there: start one with `ray start --head` and name its address"
            raise InvalidInput("--ray", address, remedy) from error
    return ray


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _prepare_nodes(ray: Any, prepare: Callable[[], object]) -> None:
    """Calls a function on each machine of the cluster. Machines that join later prepare themselves as they go."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
    shared = ray.put(_OneThread(lambda task: prepare()))
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    strategies = [NodeAffinitySchedulingStrategy(node, soft=True) for node in nodes]
    for outcome in ray.get([remote.options(scheduling_strategy=s).remote(shared, None) for s in strategies]):
        _unwrap(outcome)
