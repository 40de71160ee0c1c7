"""A document of tables, charts and pictures: as a self-contained HTML page, or as Markdown with images beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch

from gradsim.report.charts import svg_chart
from gradsim.report.html import chart_grid, image_element, number_cell, panel_figure, section, table_head, write_page
from gradsim.report.media import png_uri
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.video.encoders import png_bytes, to_bytes

CHART_SIZE = (5.4, 3.4)  # of an image beside Markdown [in]


@dataclass(frozen=True)
class Table:
    """A table of texts; all columns but the first hold numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def html(self) -> str:
        lines = []
        for row in self.rows:
            cells = [f'<td class="name" data-label="{escape(self.heads[0])}">{escape(row[0])}</td>']
            cells += [number_cell(head, escape(text)) for head, text in zip(self.heads[1:], row[1:], strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table>{table_head(self.heads, self.heads[1:])}<tbody>{''.join(lines)}</tbody></table>"

    def markdown(self) -> str:
        rule = "|".join(["---", *["--:"] * (len(self.heads) - 1)])
        lines = [f"| {' | '.join(self.heads)} |", f"|{rule}|"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows)])


@dataclass(frozen=True)
class Chart:
    """A chart, drawn on matplotlib axes."""

    title: str
    draw: Callable[[Any], None]
    x_label: str

    def save(self, file: Path) -> None:
        """Saves the chart as an image, atomically."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=CHART_SIZE, dpi=100, layout="constrained")
        axes = figure.add_subplot()
        self.draw(axes)
        axes.set_xlabel(self.x_label)
        axes.set_title(self.title, fontsize=10)
        axes.grid(alpha=0.25)
        write_atomically(file, lambda target: figure.savefig(target, metadata={"Software": None}), InvalidInput)


@dataclass(frozen=True)
class Picture:
    """A picture [H, W, 3] in [0, 1], with labels of its panels and a caption."""

    image: torch.Tensor
    labels: tuple[str, ...]
    caption: str


@dataclass(frozen=True)
class Chapter:
    """A title, paragraphs, then tables, charts and pictures."""

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    pictures: tuple[Picture, ...] = ()

    def html(self) -> str:
        parts = [f"<p>{escape(paragraph)}</p>" for paragraph in self.text]
        parts += [table.html() for table in self.tables]
        if self.charts:
            parts.append(chart_grid(((c.title, svg_chart(c.draw, x_label=c.x_label)) for c in self.charts), pairs=True))
        for picture in self.pictures:
            height, width, _ = picture.image.shape
            image = image_element(png_uri(picture.image), height, width, picture.caption)
            parts.append(panel_figure(picture.labels, image, picture.caption))
        return section(self.title, "".join(parts))

    def markdown(self, images: Path, prefix: str) -> str:
        """Returns Markdown; saves charts and pictures in the folder `images`."""
        parts = [f"## {self.title}", *self.text, *(table.markdown() for table in self.tables)]
        for k, chart in enumerate(self.charts):
            file = images / f"{prefix}-chart-{k + 1}.png"
            chart.save(file)
            parts.append(f"![{chart.title}]({images.name}/{file.name})")
        for k, picture in enumerate(self.pictures):
            file = images / f"{prefix}-picture-{k + 1}.png"
            content = png_bytes(to_bytes(picture.image))
            write_atomically(file, lambda target, data=content: target.write_bytes(data), InvalidInput)  # type: ignore[misc]
            parts.append(f"![{picture.caption}]({images.name}/{file.name})")
        return "\n\n".join(parts)


def write_document(folder: Path, name: str, title: str, source: str, chapters: Sequence[Chapter], footer: str) -> Path:
    """Writes `name`.html, `name`.md and the images of the latter into a folder, each atomically. Returns the page."""
    page = folder / f"{name}.html"
    sections = [chapter.html() for chapter in chapters]
    write_page(page, kind="experiments", title=title, source=source, sections=sections, footer=footer)
    images = folder / "images"
    images.mkdir(exist_ok=True)
    texts = [chapter.markdown(images, f"{name}-{k + 1:02d}") for k, chapter in enumerate(chapters)]
    content = "\n\n".join([f"# {title}", source, *texts, footer]) + "\n"
    write_atomically(folder / f"{name}.md", lambda target: target.write_text(content, encoding="utf-8"), InvalidInput)
    return page
