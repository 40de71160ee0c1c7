"""A page that stands on its own, and the pieces that pages share."""

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

HERE = Path(__file__).parent
PACKAGES = ("torch", "warp-lang", "numpy", "av")


def write_page(file: Path, *, kind: str, title: str, source: str, sections: Iterable[str], footer: str) -> None:
    """Write a page, whole or not at all.

    Args:
        file: Where.
        kind: Of result, in a word or two, above the title.
        title, source, footer: Plain text.
        sections: HTML.
    """
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        kind=escape(kind),
        title=escape(title),
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        source=escape(source),
        sections="\n".join(sections),
        footer=escape(footer),
    )
    write_atomically(file, lambda target: target.write_text(page, encoding="utf-8"), InvalidInput)


def scene_text(scene: Scene, time: Time, file: Path) -> str:
    """A scene as a file, and its text; a scene that no file can hold does not cost the report."""
    try:
        scene.save(file, time=time)
    except GradsimError as error:
        return f"# not saved: {error}"
    return file.read_text(encoding="utf-8")


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def verdict_box(tone: str, head: str, text: str) -> str:
    return f'<div class="verdict {tone}"><strong>{escape(head)}</strong><p>{escape(text)}</p></div>'


def number(label: str, text: str) -> str:
    """A cell of a table, with a number."""
    return f'<td class="number" data-label="{escape(label)}">{text}</td>'


def head_row(heads: Sequence[str], numbers: Iterable[str]) -> str:
    """The heads of a table, those of numbers to the right."""
    right = set(numbers)
    cells = (f'<th class="number">{escape(h)}</th>' if h in right else f"<th>{escape(h)}</th>" for h in heads)
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def panels(labels: Sequence[str], content: str, caption: str) -> str:
    """A film or a picture of panels side by side, with words above and below."""
    words = "".join(f"<span>{escape(label)}</span>" for label in labels)
    above = f'<div class="panels" style="--panels: {len(labels)}">{words}</div>' if labels else ""
    return f'<figure>{above}{content}<figcaption class="note">{escape(caption)}</figcaption></figure>'


def video(uri: str, poster: str, height: int, width: int) -> str:
    return (
        f'<video controls loop muted autoplay playsinline width="{width}" height="{height}" '
        f'poster="{poster}" src="{uri}"></video>'
    )


def picture(uri: str, height: int, width: int, what: str) -> str:
    return f'<img width="{width}" height="{height}" alt="{escape(what)}" src="{uri}">'


def plots(drawings: Iterable[tuple[str, str]]) -> str:
    """Charts (SVG) with their titles, as many beside each other as there is room for."""
    figures = (f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in drawings)
    return f'<div class="plots">{"".join(figures)}</div>'


def repetition(command: str, scene: str, film: str, numbers: str) -> str:
    """What it takes to do it again, from the names of the files beside the page."""
    again = f"<pre>{escape(command)}</pre>" if command else ""
    look = escape(f"gradsim simulate {scene} -o {film}")
    return section(
        "Do it again",
        f"{again}<p>The video of the answer:</p><pre>{look}</pre>"
        f'<p class="note">{escape(versions())}. {escape(numbers)}</p>',
    )


def scene_file(title: str, name: str, text: str) -> str:
    content = f"<details open><summary>{escape(name)}</summary><pre>{escape(text.rstrip())}</pre></details>"
    return section(title, content)


def versions() -> str:
    """Of everything that had a part in it."""
    from gradsim import __version__

    found = [f"gradsim {__version__}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{', '.join(found)}; {machine}"
