"""A self-contained HTML page, and the elements that pages share."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template

from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory
from gradsim.view.player import CAPTION, Player, player_style, script_element, script_source

HERE = Path(__file__).parent
PACKAGES = ("gradsim", "torch", "warp-lang", "numpy", "av")


def write_page(file: Path, *, kind: str, title: str, source: str, sections: Iterable[str], footer: str) -> None:
    """Writes a page, atomically.

    Args:
        file: Path of the page.
        kind: Kind of result in one or two words, shown above the title.
        title, source, footer: Plain text.
        sections: HTML.
    """
    content = "\n".join(sections)
    plays = 'class="player"' in content  # a page without a player has no script at all
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        kind=escape(kind),
        title=escape(title),
        style=(HERE / "page.css").read_text(encoding="utf-8") + (player_style() if plays else ""),
        source=escape(source),
        sections=content,
        footer=escape(footer),
        scripts=script_element() if plays else "",
        scripts_allowed=f"script-src {script_source()};" if plays else "",
    )
    write_atomically(
        file, lambda target: target.write_text(page, encoding="utf-8", errors="backslashreplace"), InvalidInput
    )


def save_scene(scene: Scene, time: Time, file: Path) -> str:
    """Saves a scene file and returns its text; if the scene cannot be saved, a comment with the reason."""
    try:
        scene.save(file, time=time)
    except GradsimError as error:
        return f"# not saved: {error}"
    return file.read_text(encoding="utf-8")


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def verdict_box(tone: str, head: str, text: str) -> str:
    return f'<div class="verdict {tone}"><strong>{escape(head)}</strong><p>{escape(text)}</p></div>'


def number_cell(label: str, text: str) -> str:
    """Returns a right-aligned table cell."""
    return f'<td class="number" data-label="{escape(label)}">{text}</td>'


def table_head(heads: Sequence[str], numbers: Iterable[str]) -> str:
    """Returns the head of a table; the columns in `numbers` are right-aligned."""
    right = set(numbers)
    cells = (f'<th class="number">{escape(h)}</th>' if h in right else f"<th>{escape(h)}</th>" for h in heads)
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def panel_figure(labels: Sequence[str], content: str, caption: str) -> str:
    """Returns a video or image of panels side by side, with a label above each and a caption below."""
    spans = "".join(f"<span>{escape(label)}</span>" for label in labels)
    above = f'<div class="panels" style="--panels: {len(labels)}">{spans}</div>' if labels else ""
    return f'<figure>{above}{content}<figcaption class="note">{escape(caption)}</figcaption></figure>'


def video_element(uri: str, poster: str, height: int, width: int) -> str:
    return (
        f'<video controls loop muted autoplay playsinline width="{width}" height="{height}" '
        f'poster="{poster}" src="{uri}"></video>'
    )


def image_element(uri: str, height: int, width: int, alt: str) -> str:
    return f'<img width="{width}" height="{height}" alt="{escape(alt)}" src="{uri}">'


def player_section(title: str, scene: Scene, trajectory: Trajectory, note: str = "") -> str:
    """Returns the section with the motion in three dimensions; empty if nothing of the scene is visible."""
    player = Player(scene, trajectory)
    if player.empty:
        return ""
    left_out = f" One frame in {player.stride} is shown." if player.stride > 1 else ""
    caption = f'<figcaption class="note">{escape(" ".join(filter(None, (note, CAPTION))) + left_out)}</figcaption>'
    return section(title, f'<figure class="motion">{player.element()}{caption}</figure>')


def chart_grid(charts: Iterable[tuple[str, str]], *, pairs: bool = False) -> str:
    """Returns a grid of charts, given as titles and SVG; in pairs, at most two are beside each other."""
    figures = (f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in charts)
    return f'<div class="plots{" pairs" if pairs else ""}">{"".join(figures)}</div>'


def reproduction_section(command: str, scene: str, video: str, note: str) -> str:
    """Returns the section with the commands that repeat the result, from the files beside the page."""
    repeat = f"<p>Repeat this result:</p><pre>{escape(command)}</pre>" if command else ""
    render = escape(f"gradsim simulate {scene} -o {video}")
    return section(
        "Reproduce",
        f"{repeat}<p>Render a video of the result:</p><pre>{render}</pre>"
        f'<p class="note">{escape(versions())}. {escape(note)}</p>',
    )


def scene_section(title: str, name: str, text: str) -> str:
    content = f"<details open><summary>{escape(name)}</summary><pre>{escape(text.rstrip())}</pre></details>"
    return section(title, content)


def versions() -> str:
    """Returns the versions of gradsim, its main dependencies and Python, and the machine."""
    packages = []
    for package in PACKAGES:
        try:
            packages.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{', '.join(packages)}; {machine}"
