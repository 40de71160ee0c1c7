"""Makes the image of docs/contact.md with the tower of `examples/tower.py`.

    python docs/images/make_tower.py

tower.png     the tower before, during and after the impact of the ball
"""

from __future__ import annotations

import runpy
from pathlib import Path

from matplotlib.figure import Figure

import gradsim as gs

HERE = Path(__file__).parent
FRAMES, FPS = (2, 4, 7, 24), 20
SIZE = (360, 480)  # of a picture [px]


def main() -> None:
    """Writes the image."""
    scene = runpy.run_path(str(HERE.parents[1] / "examples" / "tower.py"))["tower"](6.0)
    run = gs.simulate(scene, frames=max(FRAMES) + 1, fps=FPS, substeps=100)
    figure = Figure(figsize=(9.6, 7.4), layout="constrained")
    pictures = gs.render(scene, run, SIZE, frames=list(FRAMES)).clamp(0, 1).numpy()
    for axis, frame, picture in zip(figure.subplots(2, 2).flat, FRAMES, pictures, strict=True):
        axis.imshow(picture)
        axis.set_title(f"{frame / FPS:.2f} s", fontsize=10)
        axis.axis("off")
    figure.savefig(HERE / "tower.png", dpi=100)


if __name__ == "__main__":
    main()
