"""Runs the native code with the address and undefined-behaviour sanitizers of Clang: random triangles and scenes.

    python tools/sanitize.py [--triangles 1000000] [--scenes 10000] [--first 0] [--seed 0] [--folder out/sanitize]

compiles the modules with C++ headers by Clang with sanitizers, and otherwise runs gradsim as it is: random meshes are
rendered by all rasterizers, and random scenes simulated, each with gradients. The first report ends the run with exit
code 1. Needs the extra `dev` and Clang 16 or newer with its runtime libraries, such as Debian's clang-19 and
libclang-rt-19-dev; without them it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("clang++-19", "clang++-20", "clang++-21", "clang++-18", "clang++-17", "clang++-16", "clang++")
OLDEST = 16  # version of Clang that has all builtins the headers use
RUNTIME = "libclang_rt.asan-x86_64.so"
FLAGS = (
    *("-std=c++17", "-g1", "-march=native", "-fPIC", "-shared", "-w"),
    *("-fno-exceptions", "-fno-rtti", "-fno-omit-frame-pointer", "-shared-libsan"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
# By a part of the module's name. Thousands of inlined functions take minutes to compile, and as functions seconds. The
# compiled pictures stay fast enough for a million triangles, without gaps around each of the inlined variables.
OPTIMIZATION = {
    "rollout": ("-O0", "-Dalways_inline=unused"),
    "": ("-O1", "-mllvm", "-asan-stack=0"),
}
WARP_ONLY = "src:*/warp/native/*\n"  # not ours
WARP_FUNCTIONS = """
extern "C" __attribute__((noreturn)) void _wp_assert(const char*, const char*, unsigned) { __builtin_abort(); }
extern "C" int _wp_isfinite(double x) { return __builtin_isfinite(x); }
extern "C" int _wp_isnan(double x) { return __builtin_isnan(x); }
extern "C" int _wp_isinf(double x) { return __builtin_isinf(x); }
"""  # which Warp's own loader provides
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:quarantine_size_mb=64:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "OMP_NUM_THREADS": "1",
}
MESH = 500  # triangles
WORLDS = (1, 1, 4, 9, 20, 40)  # of a batch: one, some lanes of a vector, and several vectors
PROGRESS = 20  # batches from one line to the next


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triangles", type=int, default=1_000_000, help="random triangles to render (1000000)")
    parser.add_argument("--scenes", type=int, default=10_000, help="random scenes to simulate (10000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first scene, to continue a run (0)")
    parser.add_argument("--seed", type=int, default=0, help="of both (0)")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "sanitize", help="for compiled modules")
    options = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        print("sanitizers: skipped, no Clang >= 16 with runtime libraries; apt-get install clang-19 libclang-rt-19-dev")
        return 0
    if "GRADSIM_SANITIZED" not in os.environ:
        return run_with_runtime(compiler, options.folder)
    install(compiler, options.folder)
    begin = time.monotonic()
    drawn = render_triangles(options.triangles, options.seed)
    print(f"sanitizers: {drawn} random triangles without a report, {time.monotonic() - begin:.0f} s", flush=True)
    begin = time.monotonic()
    answered = simulate_scenes(options.first, options.scenes, options.seed)
    took = f"{time.monotonic() - begin:.0f} s"
    scenes = f"{options.scenes} random scenes ({answered.total()} answered)"
    print(f"sanitizers: {scenes} without a report, {took}", flush=True)
    print("answered: " + ", ".join(f"{kind} {count}" for kind, count in sorted(answered.items())), flush=True)
    return 0


def find_compiler() -> str | None:
    """Returns a Clang that is new enough and has the runtime libraries."""
    for name in filter(shutil.which, COMPILERS):
        version = subprocess.run([name, "-dumpversion"], capture_output=True, text=True, check=True).stdout
        if int(version.split(".")[0]) >= OLDEST and runtime_library(name).is_file():
            return name
    return None


def runtime_library(compiler: str) -> Path:
    command = [compiler, f"-print-file-name={RUNTIME}"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def run_with_runtime(compiler: str, folder: Path) -> int:
    """Runs this script again with the sanitizer's memory allocator and a kernel cache of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **OPTIONS, "GRADSIM_SANITIZED": "1", "LD_PRELOAD": str(runtime_library(compiler))}
    environment["WARP_CACHE_PATH"] = str(folder / "cache")
    done = subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment, cwd=ROOT, check=False)
    if done.returncode:
        print(f"sanitizers: exit code {done.returncode}, see the report above", flush=True)
    return int(done.returncode != 0)


def install(compiler: str, folder: Path) -> None:
    """Lets Warp take modules with C++ headers from shared libraries that Clang compiles with sanitizers."""
    from warp._src import build, context

    from gradsim.bridge import initialize

    initialize()
    llvm = context.runtime.llvm
    build_cpu, load, look_up = build.build_cpu, llvm.wp_load_obj, llvm.wp_lookup
    loaded: dict[bytes, Any] = {}
    ignored = folder / "ignored.txt"
    ignored.write_text(WARP_ONLY)
    provided = folder / "warp_functions.cpp"
    provided.write_text(WARP_FUNCTIONS)

    def library(path: str) -> Path:
        return folder / f"{Path(path).name}.so"

    def build_sanitized(obj_path: str, cpp_path: str, *arguments: Any, **options: Any) -> None:
        headers = [str(place) for place in options.get("extra_include_dirs", ())]
        if headers:
            includes = [f"-I{place}" for place in (*headers, Path(build.warp_home) / "native")]
            target = library(obj_path)
            partial = target.with_suffix(f".{os.getpid()}")
            level = next(level for part, level in OPTIMIZATION.items() if part in Path(cpp_path).stem)
            command = [compiler, *level, *FLAGS, f"-fsanitize-ignorelist={ignored}", *includes, "-o", str(partial)]
            print(f"compiling {Path(cpp_path).stem} with sanitizers", flush=True)
            subprocess.run([*command, cpp_path, str(provided)], check=True)
            partial.replace(target)
            empty = Path(cpp_path).with_suffix(".empty.cpp")  # what Warp loads in its place
            empty.write_text("int nothing;\n")
            cpp_path = str(empty)
        build_cpu(obj_path, cpp_path, *arguments, **options)

    def load_sanitized(path: bytes, handle: bytes, *arguments: Any) -> int:
        if library(path.decode()).exists():
            loaded[handle] = ctypes.CDLL(str(library(path.decode())))
        return int(load(path, handle, *arguments))

    def look_up_sanitized(handle: bytes, name: bytes) -> int:
        if handle not in loaded:
            return int(look_up(handle, name))
        function = getattr(loaded[handle], name.decode(), None)
        return 0 if function is None else int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    build.build_cpu, llvm.wp_load_obj, llvm.wp_lookup = build_sanitized, load_sanitized, look_up_sanitized


def render_triangles(count: int, seed: int) -> int:
    """Renders random meshes with gradients; returns the number of triangles."""
    import torch

    import gradsim as gs

    chance = random.Random(seed)
    drawn = 0
    while drawn < count:
        generator = torch.Generator().manual_seed(chance.randrange(2**31))
        faces = min(MESH, count - drawn)
        mesh = random_mesh(faces, generator, chance)
        look = gs.Look(color=(0.2, 0.5, 0.8), smooth=chance.choice((0.0, 40.0)))
        vertices = torch.tensor(mesh.vertices, requires_grad=True)
        body = gs.Cloth("sheet", mesh, mass=1.0, vertices=vertices, look=look)
        camera = gs.Camera(eye=(0.0, 0.0, chance.uniform(0.2, 4.0)), target=(0.0, 0.0, 0.0), fov=60.0)
        scene = gs.Scene([body], camera=camera, gravity=(0.0, 0.0, 0.0))
        renderer = chance.choice((gs.Exact(), gs.Exact(), gs.Exact(), gs.SoftRas(), gs.DIBR()))
        size = (chance.randint(1, 40), chance.randint(1, 40))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                still = gs.simulate(scene, frames=1, fps=30, substeps=1)
                gs.render(scene, still, size, renderer=renderer).square().sum().backward()
            except gs.GradsimError:
                pass
        drawn += faces
    return drawn


def random_mesh(faces: int, generator: Any, chance: random.Random) -> Any:
    """A mesh of separate or connected triangles: large and tiny, beside and behind the camera, some degenerate."""
    import numpy as np
    import torch

    import gradsim as gs

    count = 3 * faces
    extent = chance.choice((0.02, 0.3, 1.0, 30.0))
    centers = torch.randn(faces, 1, 3, generator=generator, dtype=torch.float64)
    corners = centers + extent * torch.randn(faces, 3, 3, generator=generator, dtype=torch.float64)
    if chance.random() < 0.3:  # equal depths and edges on pixel boundaries
        corners = (corners * 8).round() / 8 + 1e-3 * torch.rand(faces, 3, 3, generator=generator, dtype=torch.float64)
    return gs.TriMesh(corners.reshape(count, 3).numpy(), np.arange(count).reshape(faces, 3))


def simulate_scenes(first: int, count: int, seed: int) -> collections.Counter[str]:
    """Simulates random scenes with gradients; returns how many had an answer, with which bodies and integrators.

    Those that differ in nothing but the start and the masses of their bodies are the worlds of a batch.
    """
    from gradsim.scene.errors import GradsimError

    answered: collections.Counter[str] = collections.Counter()
    number, batches = first, 0
    while number < first + count:
        chance = random.Random(f"{seed} {number}")
        worlds = min(chance.choice(WORLDS), first + count - number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(GradsimError):
                answered[simulate_batch(chance, worlds)] += worlds
        number, batches = number + worlds, batches + 1
        if batches % PROGRESS == 0:
            print(f"{number} scenes in {batches} batches, {answered.total()} answered", file=sys.stderr, flush=True)
    return answered


def simulate_batch(chance: random.Random, worlds: int) -> str:
    """Simulates random scenes of equal structure, with gradients; returns their bodies and their integrator."""
    import torch
    from tests.robustness.random_scenes import random_integrator, random_scene, spread

    import gradsim as gs

    torch.set_num_threads(chance.choice((1, 1, 2)))
    dtype = chance.choice((torch.float64, torch.float64, torch.float64, torch.float32))
    mass = torch.tensor([chance.uniform(0.5, 2.0) for _ in range(worlds)], dtype=dtype)
    scene = spread(chance, random_scene(chance, mass.requires_grad_()), worlds, dtype)
    integrator = random_integrator(chance, scene) if dtype == torch.float64 else gs.SymplecticEuler()
    memory = chance.choice((None, None, 1.0))  # of which one byte makes the backward pass recompute everything
    options = {"substeps": chance.randint(1, 8), "integrator": integrator, "memory": memory, "dtype": dtype}
    motion = gs.simulate(scene, frames=3, fps=100, **options)
    loss = torch.stack([state.square().sum() for state in motion.states.values()]).sum()
    if loss.requires_grad:  # not if all bodies follow a prescribed motion
        loss.backward()
    return f"{'+'.join(sorted({type(body).__name__ for body in scene.bodies}))} {type(integrator).__name__}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
