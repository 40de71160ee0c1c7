"""Synthetic but realistic videos of known physics, to test what is estimated from footage.

Nothing here uses gradsim's simulator or renderer: trajectories come from an integrator of its own, pictures from a
plain supersampled raster over procedural clutter. The videos have what phone videos have: perspective, a camera that is
not quite level, lens distortion, motion blur averaged in linear light, shadows, noise, vignetting, changing exposure,
hands, uneven frame times and H.264.

Seeds 0 to 29 are for tuning. Seeds 30 to 59 are held out: the same code and ranges, fixed before any tuning, and not
looked at while tuning.
"""

from gradsim.experiments.footage_videos.traps import TRAPS, trap_video
from gradsim.experiments.footage_videos.truth import Known, SyntheticTruth
from gradsim.experiments.footage_videos.videos import KINDS, kind_of, synthetic_video

__all__ = ["KINDS", "TRAPS", "Known", "SyntheticTruth", "kind_of", "synthetic_video", "trap_video"]
