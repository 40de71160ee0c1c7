"""The controls of the viewer: time, what is shown, sliders of unknowns, saving and exporting."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.scene.errors import GradsimError
from gradsim.scene.unknown import Unknown

SHOWN = {"paths": True, "pushes": True, "forces": False, "camera": True}
MAX_SLIDERS = 24
STEPS = 200  # of a slider
LOGARITHMIC = 20.0  # ratio of the bounds of a positive unknown above which its slider is logarithmic


@dataclasses.dataclass(frozen=True)
class Range:
    """The range of a slider, linear or logarithmic."""

    low: float
    high: float

    @property
    def logarithmic(self) -> bool:
        """Whether the slider has the decimal logarithm of the value."""
        return self.low > 0 and self.high / self.low > LOGARITHMIC

    @property
    def ends(self) -> tuple[float, float]:
        """Positions at the ends of the slider."""
        return self.position(self.low), self.position(self.high)

    def position(self, value: float) -> float:
        """Returns the position of the slider for a value."""
        return float(np.log10(value)) if self.logarithmic else value

    def value(self, position: float) -> float:
        """Returns the value at a position."""
        return float(10.0**position) if self.logarithmic else position


def slider_range(unknown: Unknown, index: tuple[int, ...]) -> Range:
    """Returns the range of the slider of one number of an unknown: its bounds, or a range about its guess."""
    guess = float(unknown.guess[index])
    reach = max(abs(guess), 1.0)
    low = guess - reach if unknown.low is None else float(unknown.low[index])
    high = guess + reach if unknown.high is None else float(unknown.high[index])
    return Range(low, high)


class Controls:
    """The panel of a viewer.

    Args:
        viewer: The viewer it belongs to.
    """

    def __init__(self, viewer: Any):
        self.viewer = viewer
        gui = viewer.server.gui
        self._panels: Any = None
        with gui.add_folder("Time"):
            self.slider = gui.add_slider("frame", 0, 1, 1, 0)
            self.play = gui.add_checkbox("play", False)
            self.readout = gui.add_text("time", "0 s", disabled=True)
        if viewer.scene.unknowns:
            with gui.add_folder("Unknowns"):
                self._add_sliders()
        with gui.add_folder("Show"):
            shown = SHOWN | dict.fromkeys(viewer.observed.kinds, True)
            self.boxes = {name: gui.add_checkbox(name, on) for name, on in shown.items()}
        with gui.add_folder("Files"):
            self.file = gui.add_text("scene file", "guess.yaml")
            gui.add_button("Save scene").on_click(lambda _: self._save())
            gui.add_button("Download GLB").on_click(self._download)
        self.status = gui.add_text("status", "ready", disabled=True)
        self.slider.on_update(lambda _: self._frame_changed())
        for name, box in self.boxes.items():
            box.on_update(lambda _, name=name: self._toggle(name))

    @property
    def playing(self) -> bool:
        """Whether the motion is played."""
        return bool(self.play.value)

    @property
    def frame(self) -> int:
        """The frame of the slider."""
        return int(self.slider.value)

    @frame.setter
    def frame(self, frame: int) -> None:
        self.slider.value = frame  # calls `_frame_changed`

    def shows(self, name: str) -> bool:
        """Whether something is to be drawn."""
        return bool(self.boxes[name].value)

    def set_frames(self, times: np.ndarray) -> None:
        """Sets the times of the frames [s]."""
        self._times = times
        self.slider.max = max(len(times) - 1, 1)

    def set_panels(self, image: np.ndarray) -> None:
        """Shows observed and simulated pictures; with a video their difference and both in one below."""
        if self._panels is None:
            label = "observed, simulated" + ("" if self.viewer.observed.video is None else "; difference, overlay")
            self._panels = self.viewer.server.gui.add_image(image, label=label, format="jpeg", order=-1.0)
        else:
            self._panels.image = image

    def report(self, text: str) -> None:
        """Shows a line of text."""
        self.status.value = text

    def _frame_changed(self) -> None:
        frame = min(self.frame, len(self._times) - 1)
        self.readout.value = f"{self._times[frame]:.3f} s"
        self.viewer.show(frame)

    def _toggle(self, name: str) -> None:
        viewer = self.viewer
        for key, handle in viewer._handles.items():
            if key == name or key.startswith(f"/{name}/"):
                handle.visible = self.shows(name)
        if name in ("pushes", "forces", "tracks", "masks"):
            viewer.show(min(self.frame, len(self._times) - 1))

    def _add_sliders(self) -> None:
        gui, count = self.viewer.server.gui, 0
        units = {path: spec.unit for path, _, spec in self.viewer.scene.unknown_quantities()}
        self.sliders: dict[str, Any] = {}
        for path, unknown in self.viewer.scene.unknowns.items():
            for index in np.ndindex(unknown.shape):
                count += 1
                if count > MAX_SLIDERS:
                    gui.add_markdown(f"The first {MAX_SLIDERS} numbers have sliders.")
                    return
                name = path + "".join(f"[{k}]" for k in index)
                self.sliders[name] = self._add_slider(name, path, unknown, index, units[path])

    def _add_slider(self, name: str, path: str, unknown: Unknown, index: tuple[int, ...], unit: str) -> Any:
        scale, gui = slider_range(unknown, index), self.viewer.server.gui
        value, (first, last) = float(self.viewer.values[path][index]), scale.ends
        label = name if unit in ("", "1") else f"{name} [{unit}]"
        start = float(np.clip(scale.position(value), first, last))
        shown = f"log10 {label}" if scale.logarithmic else label
        slider = gui.add_slider(shown, first, last, (last - first) / STEPS, start)
        number = gui.add_text(name, f"{value:.4g}", disabled=True) if scale.logarithmic else None

        def changed(_: Any) -> None:
            value = scale.value(float(slider.value))
            if number is not None:
                number.value = f"{value:.4g}"
            values = self.viewer.values[path].copy()
            values[index] = value
            self.viewer.set_values({path: values})

        slider.on_update(changed)
        return slider

    def _save(self) -> None:
        """Writes a scene file in which the present values are the guesses of the unknowns."""
        viewer = self.viewer
        unknowns = {
            path: dataclasses.replace(unknown, guess=np.asarray(viewer.values[path]))
            for path, unknown in viewer.scene.unknowns.items()
        }
        try:
            scene = viewer.scene.with_values(unknowns) if unknowns else viewer.scene
            scene.save(Path(self.file.value), time=viewer.time)
        except (GradsimError, OSError) as error:
            self.report(str(error))
        else:
            self.report(f"saved {self.file.value}")

    def _download(self, event: Any) -> None:
        event.client.send_file_download("scene.glb", self.viewer.glb())
