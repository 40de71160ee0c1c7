"""Times the same workloads in two checkouts in turns: `python -m benchmarks.compare_trees OLD NEW`.

Each checkout runs in a process of its own with its own environment (`.venv`), and the two take turns for every
workload, so that changes of the machine's speed affect both. Workloads use only public names that both checkouts have.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = r"""
import json, sys, time, warnings
import torch, gradsim as gs
warnings.simplefilter("ignore")
torch.set_num_threads(1)
F32, F64 = torch.float32, torch.float64
EULER, MIDPOINT = gs.SymplecticEuler(), gs.Midpoint()

def leaf(value, dtype):
    return torch.tensor(value, dtype=dtype, requires_grad=True)

def beam(cells, dtype, steps, integrator=EULER):
    mesh = gs.meshes.tet_box(tuple(0.1 * c for c in cells), cells)
    clamp = gs.Region(high=(-0.05 * cells[0] + 1e-6, None, None))
    def run():
        material = gs.NeoHookean(leaf(1e4, dtype), 1e4, 1.0)
        body = gs.Soft("beam", mesh, 500.0, material=material, pinned=clamp)
        motion = gs.simulate(gs.Scene([body]), frames=2, fps=1 / (steps * 1e-5), substeps=steps, integrator=integrator)
        motion.vertices[-1].sum().backward()
    return run

def sheet(cells, dtype, steps):
    mesh = gs.meshes.grid((1.0, 1.0), (cells, cells))
    def run():
        cloth = gs.Cloth("sheet", mesh, 0.5, material=gs.Membrane(leaf(1e3, dtype), 1e3, 0.1), bending=gs.Bending(1e-3))
        motion = gs.simulate(gs.Scene([cloth]), frames=2, fps=1 / (steps * 1e-5), substeps=steps, integrator=EULER)
        motion.vertices[-1].sum().backward()
    return run

def cubes(worlds, dtype, integrator):
    mesh = gs.meshes.box(0.5)
    masses = torch.linspace(1.0, 3.0, worlds, dtype=dtype) if worlds > 1 else torch.tensor(2.0, dtype=dtype)
    def run():
        mass = masses.clone().requires_grad_()
        place = {"position": (0.0, 0.3, 0.0), "rotation": (0.1, 0.2, 0.0, 1.0), "velocity": (1.0, 0.0, 0.0)}
        cube = gs.Rigid("cube", mesh, mass=mass, **place)
        motion = gs.simulate(gs.Scene([cube], gs.Ground()), frames=11, fps=30, substeps=32, integrator=integrator)
        motion["cube"].center_of_mass.sum().backward()
    return run

def call(kind, dtype):
    mesh, box = gs.meshes.tet_box(0.2, 1), gs.meshes.box(0.5)
    def run():
        if kind == "soft":
            body = gs.Soft("body", mesh, 300.0, material=gs.NeoHookean(leaf(1e4, dtype), 1e4, 1.0))
        else:
            body = gs.Rigid("body", box, mass=leaf(1.0, dtype), position=(0.0, 1.0, 0.0))
        state = gs.simulate(gs.Scene([body], gs.Ground()), frames=2, fps=1000.0, substeps=1, integrator=EULER).states
        sum(s[-1].sum() for s in state.values()).backward()
    return run

def pictures(mesh, dtype, size, frames):
    camera = gs.Camera(eye=(0.0, 1.0, 3.0), target=(0.0, 0.0, 0.0), fov=40)
    def run():
        cube = gs.Rigid("cube", mesh, mass=1.0, velocity=leaf([0.1, 0.0, 0.0], dtype), angular_velocity=(1.0, 2.0, 0.0))
        scene = gs.Scene([cube], camera=camera)
        motion = gs.simulate(scene, frames=frames, fps=30, substeps=1, integrator=EULER)
        gs.render(scene, motion, size=(size, size)).sum().backward()
    return run

JOBS = {
    "beam, 120 tets, float32": beam((6, 2, 2), F32, 400),
    "beam, 1,200 tets, float32": beam((15, 4, 4), F32, 100),
    "beam, 1,200 tets, float64": beam((15, 4, 4), F64, 100),
    "beam, 1,200 tets, midpoint, float64": beam((15, 4, 4), F64, 100, MIDPOINT),
    "beam, 10,240 tets, float32": beam((32, 8, 8), F32, 20),
    "cloth, 512 triangles, float32": sheet(16, F32, 100),
    "64 cubes, float32": cubes(64, F32, EULER),
    "64 cubes, float64": cubes(64, F64, EULER),
    "64 cubes, midpoint, float64": cubes(64, F64, MIDPOINT),
    "1 cube, float64": cubes(1, F64, EULER),
    "1 cube, midpoint, float64": cubes(1, F64, MIDPOINT),
    "call, soft, float64": call("soft", F64),
    "call, rigid, float64": call("rigid", F64),
    "render, 12 faces, 128 px, float64": pictures(gs.meshes.box(0.8), F64, 128, 20),
    "render, 1,280 faces, 128 px, float64": pictures(gs.meshes.icosphere(0.6, 3), F64, 128, 10),
    "render, 1,280 faces, 128 px, float32": pictures(gs.meshes.icosphere(0.6, 3), F32, 128, 10),
}
for line in sys.stdin:
    name, seconds = json.loads(line)
    job = JOBS.get(name)
    if job is None:
        print(json.dumps(list(JOBS)), flush=True)
        continue
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - start)
    print(json.dumps(best), flush=True)
"""


class Checkout:
    """A worker process in a checkout."""

    def __init__(self, folder: str):
        python = Path(folder, ".venv/bin/python").absolute()
        self._process = subprocess.Popen(
            [str(python), "-c", WORKER],
            cwd=folder,
            env={"PYTHONPATH": str(Path(folder, "src").absolute()), "OMP_NUM_THREADS": "1", "HOME": str(Path.home())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, name: str, seconds: float = 0.0) -> Any:
        """Runs a workload for some seconds and returns the shortest time of one run [s]."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([name, seconds]) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="folder of the checkout to compare with")
    parser.add_argument("new", help="folder of the checkout under test")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each checkout for each workload")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn [s]")
    parser.add_argument("--only", default="", help="run only workloads whose name contains this text")
    parser.add_argument("--limit", type=float, default=1.05, help="largest accepted ratio of the times")
    options = parser.parse_args()
    old, new = Checkout(options.old), Checkout(options.new)
    missed = 0
    print(f"{'workload':42} {'old [ms]':>10} {'new [ms]':>10} {'new/old':>8}")
    for name in new.ask(""):
        if options.only not in name:
            continue
        for checkout in (old, new):
            checkout.ask(name, 0.05)  # compiles
        times = {old: float("inf"), new: float("inf")}
        for _ in range(options.rounds):
            for checkout in times:
                times[checkout] = min(times[checkout], checkout.ask(name, options.seconds))
        ratio = times[new] / times[old]
        missed += ratio > options.limit
        note = "  slower" if ratio > options.limit else ""
        print(f"{name:42} {1e3 * times[old]:10.3f} {1e3 * times[new]:10.3f} {ratio:8.3f}{note}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
