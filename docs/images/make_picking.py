"""Makes picking.png of docs/picking.md: the page with choices on a drawn video; needs chromium.

python -m docs.images.make_picking      (from the root of the repository)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import cv2
import numpy as np
from tests.footage.chromium import open_browser
from tests.footage.picking_session import session_of
from tests.footage.videos import save

from gradsim.footage.choices import Choices
from gradsim.footage.recording import open_recording

HERE = Path(__file__).parent
FLOOR, RULER = 420, (120, 80, 120, 400)  # [px]
FINE = 4  # subpixel bits of the shapes that OpenCV draws


def scene() -> np.ndarray:
    """Returns a wall with a ruler, and a floor [H, W, 3]."""
    image = np.full((480, 640, 3), (214, 220, 224), np.uint8)
    image[FLOOR:] = (166, 134, 104)
    image[FLOOR - 12 : FLOOR] = (240, 240, 238)
    x, top, _, bottom = RULER
    image[top:bottom, x : x + 14] = (250, 214, 92)
    for k in range(11):
        y = top + (bottom - 1 - top) * k // 10
        image[y : y + 2, x : x + (14 if k % 5 == 0 else 8)] = (60, 50, 20)
    return image


def ball(frame: int) -> tuple[float, float]:
    """Returns the place of the ball in a frame [px]."""
    time = frame / 30
    return 190 + 420 * time, 300 - 620 * time + 720 * time**2


def video(file: Path) -> Path:
    images = []
    for frame in range(26):
        image = scene()
        x, y = (round((value - 0.5) * (1 << FINE)) for value in ball(frame))
        cv2.circle(image, (x, y), 17 << FINE, (206, 62, 48), -1, cv2.LINE_AA, FINE)
        images.append(image)
    return save(file, np.array(images))


def main() -> None:
    choices = Choices(
        object=ball(12), object_frame=12, scale=(*RULER, 0.8), floor=(30, FLOOR, 600, FLOOR), motion="flight"
    )
    with tempfile.TemporaryDirectory() as folder, open_browser(Path(folder)) as browser:
        recording = open_recording(video(Path(folder) / "throw.mp4"))
        with session_of(recording, choices) as session:
            browser.open(session.url, 1000, 690)
            browser.wait_until("document.readyState === 'complete' && loadFrame(shown).naturalWidth > 0")
            browser.evaluate("selectTool('ruler')")
            place = browser.evaluate(f"toClient({{x: {RULER[0]}, y: {RULER[1]}}})")
            browser.move(place["x"], place["y"])
            browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            browser.screenshot(HERE / "picking.png")


if __name__ == "__main__":
    main()
