"""`gradsim new`: a commented scene file from a few answers."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from gradsim.cli.console import console
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.files.load import load_scene_file

BODIES = {
    "ball": """  - ball:
      name: object
      radius: $radius # [m]
      mass: 1.0 # [kg]; only its ratio to known forces can be estimated""",
    "box": """  - rigid:
      name: object
      mesh: {box: $size} # edge length [m]; [x, y, z] for a box
      mass: 1.0 # [kg]; only its ratio to known forces can be estimated""",
    "cloth": """  - cloth:
      name: object
      mesh: {grid: {size: $size, cells: 8}} # [m]
      density: 0.2 # [kg/m^2]""",
    "soft": """  - soft:
      name: object
      mesh: {tet_box: {size: $size, cells: 3}} # [m]
      density: 1000.0 # [kg/m^3]
      material: {mu: 1.0e+5, lam: 1.0e+5, damping: 10.0} # [Pa], [Pa], [Pa s]""",
}
TEMPLATE = Template("""\
# yaml-language-server: $$schema=$schema
# A $body that moves in front of a camera. SI units, y points up, angles in radians except fov.
# Look at it:  gradsim view $file        Fit it to a video:  gradsim estimate $file video.mp4 -o out/
# A quantity to be estimated is {unknown: guess, low: bound, high: bound} in place of its number.
bodies:
$described
      position: [0.0, $height, 0.0] # of its origin at the first frame [m]
      velocity: {unknown: [0.5, 0.0, 0.0], low: -5.0, high: 5.0} # at the first frame [m/s]
      look: {color: [0.85, 0.35, 0.2]} # red, green, blue from 0 to 1
${ground}camera:
  eye: [0.0, $eye, $distance] # [m]
  target: [0.0, $aim, 0.0]
  fov: 45.0 # vertical field of view [degrees]
time: {frames: $frames, fps: $fps} # of the video; substeps are chosen for stability
""")
GROUND = """ground:
  {contact} # contact: elasticity of the bounce, coefficient of friction
  look: {{tile: {tile:.3g}}} # a checkerboard with tiles of this size [m]; leave out if the video shows none
"""


class BodyKind(str, Enum):
    """Kinds of objects that `gradsim new` describes."""

    BALL = "ball"
    BOX = "box"
    CLOTH = "cloth"
    SOFT = "soft"

    def __str__(self) -> str:
        return str(self.value)  # the default that a question shows


def new(
    file: Annotated[Path, typer.Argument(help="The scene file to write, .yaml.")],
    body: Annotated[BodyKind, typer.Option(prompt="What moves", help="The object.")] = BodyKind.BALL,
    size: Annotated[
        float, typer.Option(prompt="Its size in metres", help="Diameter or edge length [m].", min=1e-6)
    ] = 0.1,
    ground: Annotated[bool, typer.Option(prompt="Is there a floor", help="Whether there is a floor.")] = True,
    fps: Annotated[float, typer.Option(prompt="Frames per second of the video", help="Frame rate.", min=1e-3)] = 30.0,
    frames: Annotated[int, typer.Option(prompt="Number of frames", help="Frames.", min=2)] = 60,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented scene file from a few answers, asked for where an option is not given.

    gradsim new scene.yaml

    gradsim new scene.yaml --body ball --size 0.2 --ground --fps 60 --frames 90
    """
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise InvalidInput("file", str(file), "must end in .yaml")
    if file.exists() and not force:
        raise InvalidInput("file", str(file), "exists already: give another name, or --force")
    if not size < 1e4:
        raise OutOfRange("--size", size, "must be the size of an object [m]")
    name = "".join(sign if sign.isprintable() else "?" for sign in file.name)
    text = scene_text(name, body.value, size, ground=ground, fps=fps, frames=frames)

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")
        load_scene_file(target)  # what is written can be read

    write_atomically(file, write, InvalidInput)
    console.print_line(f"{file}: look at it with gradsim view {file}")


def scene_text(name: str, body: str, size: float, *, ground: bool, fps: float, frames: int) -> str:
    """Returns the text of a scene file."""
    rigid = body in ("ball", "box")
    contact = "restitution: 0.5\n  mu: 0.5" if rigid else "kd: 1.0\n  mu: 0.5"
    floor = GROUND.format(contact=contact, tile=size) if ground else ""
    return TEMPLATE.substitute(
        schema=schema_file().as_uri(),
        body={"soft": "soft block", "cloth": "sheet of cloth"}.get(body, body),
        file=name,
        described=Template(BODIES[body]).substitute(radius=f"{size / 2:g}", size=f"{size:g}"),
        height=f"{3 * size:.4g}",
        ground=floor,
        eye=f"{3 * size:.4g}",
        distance=f"{12 * size:.4g}",
        aim=f"{2 * size:.4g}",
        frames=frames,
        fps=f"{fps:g}",
    )


def schema_file() -> Path:
    """Returns the JSON schema of scene files that is part of gradsim."""
    return Path(__file__).parents[1] / "scenes" / "scene.schema.json"
