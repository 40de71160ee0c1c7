"""`generate`: makes the videos of a data set that are missing in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from gradsim.datasets.compilation import build_kernels
from gradsim.datasets.items import Settings, item_path, open_folder, write_item, write_manifest
from gradsim.parallel import Workers, run_tasks
from gradsim.scene.arguments import checked_path, checked_whole
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.spelling import abbreviate

MOST_VIDEOS = 10_000_000  # of a data set


def generate(
    folder: str | os.PathLike[str],
    videos: int,
    settings: Settings,
    workers: Workers = Workers(),
    progress: Callable[[int], object] = lambda done: None,
) -> int:
    """Makes the videos of a data set that are missing in its folder, then writes its manifest.

    A video depends on the settings and its number alone, so the files are the same whatever the number of workers, and
    after an interruption. Each is written in one step.

    Example:
        `gs.datasets.generate("data", 8, gs.datasets.Settings("rigid"))`

    Args:
        folder: Created if it does not exist. The machines of a Ray cluster must share it.
        videos: Number of videos of the whole data set; a later call may ask for more.
        settings: What the videos show.
        workers: Processes or machines.
        progress: Called with the number of videos that exist, after each new one.

    Returns:
        Number of new videos.

    Raises:
        InvalidInput: The folder has a data set with other settings.
    """
    videos = checked_whole("videos", videos, high=MOST_VIDEOS)
    if not isinstance(settings, Settings):
        raise WrongType("settings", abbreviate(settings), "must be gs.datasets.Settings(...)")
    place = checked_path("folder", folder).resolve()
    open_folder(place, settings)
    missing = [number for number in range(videos) if not (place / item_path(number)).is_dir()]
    done = videos - len(missing)
    make = partial(write_item, place, settings)
    for number, _ in run_tasks(make, missing, workers, prepare=partial(build_kernels, settings.kind)):
        if not (place / item_path(number)).is_dir():
            raise InvalidInput("folder", str(place), "must be a folder that all machines of the cluster share")
        done += 1
        progress(done)
    write_manifest(place, settings, videos)
    return len(missing)
