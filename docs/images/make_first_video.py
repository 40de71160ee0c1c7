"""Makes the animation and the picture of docs/first-video.md, first_video_preview.webp and first_video_report.png.

python -m docs.images.make_first_video      (from the root of the repository; needs chromium)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from tests.footage.chromium import open_browser

import gradsim as gs
from gradsim.experiments.footage_videos import synthetic_video
from gradsim.footage.prepared_files import Preview

HERE = Path(__file__).parent
WIDTH, QUALITY = 420, 40  # of the animation [px], and of its frames
SEED = 344  # a throw in front of a ruler
LONG = "document.querySelectorAll('section')[1]"  # the section about the footage


def save_preview(prepared: gs.Prepared, file: Path) -> None:
    """Saves the preview as a small animation that begins again after a second."""
    preview = Preview(prepared)
    height, width = preview.shape[1:3]
    size = (WIDTH, round(WIDTH * height / width))
    frames = [
        Image.fromarray(cv2.resize(np.ascontiguousarray(preview[k]), size, interpolation=cv2.INTER_AREA))
        for k in range(preview.shape[0])
    ]
    step = 1000 * float(np.median(np.diff(prepared.recording.times))) * preview.step
    durations = [max(1, round(step))] * (len(frames) - 1) + [1000]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=QUALITY, method=6)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        truth = synthetic_video(SEED, Path(folder) / "throw.mp4")
        prepared = gs.prepare(truth.path, scale=truth.known.length)
        print(prepared)
        save_preview(prepared, HERE / "first_video_preview.webp")
        fit = gs.estimate(prepared)
        print(fit)
        page = gs.write_report(fit, Path(folder) / "out", title="throw", footage=prepared)
        browser.open(page.as_uri(), 1000, 1260)
        browser.wait_until("document.readyState === 'complete'")
        browser.evaluate("document.querySelector('video').pause()")
        browser.evaluate(
            "new Promise(done => { const v = document.querySelector('video');"
            " v.onseeked = done; v.currentTime = v.duration / 2 })"
        )
        browser.evaluate(f"{LONG}.scrollIntoView()")
        browser.screenshot(HERE / "first_video_report.png")


if __name__ == "__main__":
    main()
