"""Makes first_video_preview.png and first_video_report.png of docs/first-video.md from a synthetic video.

python -m docs.images.make_first_video      (from the root of the repository; needs chromium)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np
from tests.footage.chromium import open_browser

import gradsim as gs
from gradsim.experiments.footage_videos import synthetic_video
from gradsim.footage.prepared_files import Preview

HERE = Path(__file__).parent
SEED = 344  # a throw in front of a ruler
LONG = "document.querySelectorAll('section')[1]"  # the section about the footage


def save_preview(prepared: gs.Prepared, file: Path) -> None:
    """Saves the last frame of the preview, reduced, in the colours of a small palette."""
    preview = Preview(prepared)
    image = np.ascontiguousarray(preview[preview.shape[0] - 4])
    cv2.imwrite(str(file), cv2.resize(image, None, fx=0.9, fy=0.9, interpolation=cv2.INTER_AREA)[..., ::-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        truth = synthetic_video(SEED, Path(folder) / "throw.mp4")
        prepared = gs.prepare(truth.path, scale=truth.known.length)
        print(prepared)
        save_preview(prepared, HERE / "first_video_preview.png")
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
