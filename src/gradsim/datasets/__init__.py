"""Data sets of simulated videos: the paper's objects and ranges, generation, and loading."""

from gradsim.datasets.generate import generate
from gradsim.datasets.items import Settings
from gradsim.datasets.objects import GROUPS, OBJECTS
from gradsim.datasets.video_dataset import VideoDataset

__all__ = ["GROUPS", "OBJECTS", "Settings", "VideoDataset", "generate"]
