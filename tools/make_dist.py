"""Builds wheel and sdist, checks them, and runs gradsim from the wheel in an empty environment.

make dist                                  # all of it; the demo takes about a minute
python tools/make_dist.py --smoke          # a short simulation in place of the demo
python tools/make_dist.py --python python3.13 --smoke
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NEEDED = ("py.typed", "scenes/bouncing_cube.yaml", "scenes/scene.schema.json", "view/player.js", "report/page.html")
SMOKE = """
import gradsim as gs
scene = gs.load_scene("bouncing_cube")
known = scene.with_values({path: unknown.guess for path, unknown in scene.unknowns.items()})
trajectory = gs.simulate(known, frames=3, substeps=128)
assert gs.render(known, trajectory, (16, 16)).shape == (3, 16, 16, 3)
assert "<iframe" in trajectory._repr_html_()
print("simulated and rendered with gradsim", gs.__version__, "from", gs.__file__)
"""


def build() -> Path:
    """Builds both archives into dist/ and returns the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    files = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    wheel = next(file for file in files if file.suffix == ".whl")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if f"gradsim/{name}" not in names]
    foreign = [name for name in names if not re.match(r"gradsim(/|-|_command\.py$)", name)]
    if missing or foreign:
        sys.exit(f"{wheel.name}: missing {missing}, foreign {foreign}")
    return wheel


def install_and_run(wheel: Path, python: str, folder: Path, *, smoke: bool) -> None:
    """Installs the wheel into an empty environment and runs it from an empty folder."""
    run(python, "-m", "venv", folder / "venv")
    own = folder / "venv" / "bin" / "python"
    run(own, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    empty = folder / "empty"
    empty.mkdir()
    run(own, "-c", SMOKE, cwd=empty)
    if not smoke:
        run(own.with_name("gradsim"), "demo", "-o", empty / "out", cwd=empty)
        if not (empty / "out" / "report.html").is_file():
            sys.exit("the demo wrote no report")


def run(*command: object, cwd: Path | None = None) -> None:
    """Prints and runs a command; ends with its exit code if it fails."""
    words = [str(word) for word in command]
    print("$", " ".join(words if len(words[-1]) < 200 else [*words[:-1], "..."]), flush=True)
    code = subprocess.run(words, cwd=cwd, check=False).returncode
    if code:
        sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python of the empty environment")
    parser.add_argument("--smoke", action="store_true", help="a short simulation in place of the demo")
    options = parser.parse_args()
    wheel = build()
    with tempfile.TemporaryDirectory() as folder:
        install_and_run(wheel, options.python, Path(folder), smoke=options.smoke)
    print(f"{wheel.relative_to(ROOT)} installs and runs")


if __name__ == "__main__":
    main()
