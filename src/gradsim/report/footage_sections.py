"""The section of the report of an estimate about the footage that it comes from, as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import torch
from numpy.typing import NDArray

from gradsim.fit.contributions import MODEL_ERROR, OBSERVATIONS, OTHERS, RANGES
from gradsim.fit.result import Fit
from gradsim.footage.footage_view import FootageView
from gradsim.report.footage_charts import hardly_used, track_charts
from gradsim.report.footage_overlay import (
    PredictedTrack,
    close_up_rows,
    close_ups,
    mask_strip,
    overlay_frames,
    playback_rate,
    predicted_track,
)
from gradsim.report.html import (
    chart_grid,
    image_element,
    panel_figure,
    section,
    table_head,
    video_element,
)
from gradsim.report.media import mp4_uri, png_uri
from gradsim.report.misfit_text import holdout_text

SOURCES = {
    OBSERVATIONS: "noise of the track",
    MODEL_ERROR: "errors of the model",
    RANGES: "plausible ranges",
    OTHERS: "further priors",
}
MIN_SHARE = 0.01  # smaller contributions are not listed


def footage(fit: Fit, view: FootageView) -> str:
    """What was seen, what is predicted, where scale and camera come from, and what is uncertain."""
    predicted = predicted_track(fit)
    parts = [
        f'<div class="columns"><div>{_overlay(view, predicted)}</div><div>{_origin(view)}</div></div>',
        _close_ups(view, predicted),
        chart_grid(track_charts(view, predicted), pairs=True),
        _notes(view),
        contributions(fit, view.summary.get("wanted", ())),
        _holdout(fit),
        _plate_and_masks(view),
    ]
    return section("Footage", "".join(parts))


def _overlay(view: FootageView, predicted: PredictedTrack) -> str:
    frames = overlay_frames(view, predicted)
    rate, speed = playback_rate(view)
    height, width = frames.shape[1:3]
    video = video_element(mp4_uri(_tensor(frames), rate), png_uri(_tensor(frames[len(frames) // 2])), height, width)
    slow = "" if speed > 0.95 else f", at {100 * speed:.0f} % of the speed"
    every = "" if len(view.rows) == len(view.times) else f" Every {view.rows[1] - view.rows[0]}th frame is shown."
    caption = (
        f"Observed frames{slow}. Yellow: measured centres. Blue: path and outline that the fitted scene predicts. "
        f"{_outline_rule(view)}{every}"
    )
    return panel_figure((), video, caption)


def _outline_rule(view: FootageView) -> str:
    names = [name for name, unused in zip(("sideways", "up and down"), hardly_used(view), strict=True) if unused]
    except_for = f", except {' and '.join(names)}: this motion is hardly used" if names else ""
    return f"The outline must stay on the object{except_for}."


def _close_ups(view: FootageView, predicted: PredictedTrack) -> str:
    labels = tuple(f"{view.times[view.rows[k]]:.3g} s" for k in close_up_rows(view))
    caption = "The object with its predicted outline (blue) and its measured centre (yellow), enlarged."
    return panel_figure(labels, _image(close_ups(view, predicted), "the object enlarged"), caption)


def _tensor(image: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(image).float() / 255


def _origin(view: FootageView) -> str:
    """The table of what was found, and where scale and camera come from."""
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in _facts(view.summary))
    return f"<table>{table_head(('', 'found'), ())}<tbody>{rows}</tbody></table>"


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    found, motion, camera = summary["object"], summary["motion"], summary["camera"]
    first, stop = summary["frames"]
    others = ", ".join(f"{name} {_percent(share)}" for name, share in motion["others"].items())
    return [
        ("video", f"{summary['video']}, frames {first} to {stop - 1}"),
        ("object", f"{found['diameter_px']:.1f} px wide, measured in {found['frames']} frames"),
        ("kind of motion", f"{motion['kind']}, explains {_percent(motion['explained'])} of the path"),
        *([("other kinds", others)] if others else []),
        ("scale", _scale(camera)),
        ("focal length", f"{camera['focal_px']:.0f} px{_plus_minus(camera['focal_sd'])}, {camera['focal_source']}"),
        ("lens", "removed: " + _distortion(camera) if any(camera["distortion"]) else "no distortion is assumed"),
    ]


def _percent(share: float) -> str:
    return f"{100 * max(share, 0.0):.4g} %"


def _scale(camera: Mapping[str, Any]) -> str:
    if camera["pixels_per_metre"] is None:
        return "not known: lengths follow from the known gravity"
    return f"{camera['pixels_per_metre']:.4g} px/m{_plus_minus(camera['scale_sd'])}, from {camera['scale_source']}"


def _plus_minus(relative: float) -> str:
    return f" ± {100 * relative:.2g} %"


def _distortion(camera: Mapping[str, Any]) -> str:
    names = ("k1", "k2", "p1", "p2", "k3")
    return ", ".join(f"{name} {value:.3g}" for name, value in zip(names, camera["distortion"], strict=True) if value)


def _notes(view: FootageView) -> str:
    items = "".join(f"<li>{escape(note[:1].upper() + note[1:])}</li>" for note in view.summary["notes"])
    return f"<h3>What is uncertain</h3><ul>{items}</ul>" if items else ""


def contributions(fit: Fit, wanted: Any) -> str:
    """The table of what contributes to the interval of each value: those that are asked for first."""
    names = [*(name for name in wanted if name in fit.contributions)]
    names += [name for name, *_ in fit.rows() if name in fit.contributions and name not in names]
    if not names:
        return ""
    rows = "".join(_contribution_row(name, fit.contributions[name], name in wanted) for name in names)
    head = table_head(("value", "part of the variance of its interval"), ())
    note = (
        "A value is improved most by what has the largest part. The prior of camera.view_height, the height of the "
        "picture in the plane of the motion, is the uncertainty of the scale: a longer ruler, exactly in this plane, "
        "reduces it. The prior of camera.fov is that of the focal length: a calibrated lens reduces it."
    )
    return (
        f'<h3>What each prior contributes</h3><div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>'
        f'<p class="note">{escape(note)}</p>'
    )


def _contribution_row(name: str, shares: Mapping[str, float], wanted: bool) -> str:
    listed = sorted(((share, source) for source, share in shares.items() if share >= MIN_SHARE), reverse=True)
    words = [f"{_source(source, name)} {100 * share:.0f} %" for share, source in listed]
    label = f"<strong>{escape(name)}</strong>" if wanted else escape(name)
    return f"<tr><td>{label}</td><td>{escape(', '.join(words))}</td></tr>"


def _source(source: str, name: str) -> str:
    return SOURCES.get(source, "its own prior" if source == name else f"prior of {source}")


def _holdout(fit: Fit) -> str:
    text = holdout_text(fit)
    return f"<h3>Hold-out</h3><p>{escape(text)}</p>" if text else ""


def _plate_and_masks(view: FootageView) -> str:
    plate, strip = view.plate, mask_strip(view.masks)
    labels = tuple(str(number) for number, _ in view.masks)
    background = _image(plate, "background without the object")
    masks = _image(strip, "masks of the object")
    return (
        "<h3>Background and masks</h3>"
        f'<div class="columns">{panel_figure((), background, "The picture without the object.")}'
        f"{panel_figure(labels, masks, 'Masks of the object in frames of the video; white is the object.')}</div>"
    )


def _image(image: NDArray[Any], alt: str) -> str:
    return image_element(png_uri(_tensor(image)), image.shape[0], image.shape[1], alt)
