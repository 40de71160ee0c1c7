"""Articulated bodies: arms of six joints in a batch of worlds beside Newton, and a chain of 30 beside MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import HEADINGS, Speeds, newton_fields
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.scenes import INTEGRATOR, rollout_calls
from benchmarks.timing import Call, Machine, minimum_times, on_threads, this_machine

WORLDS = 64
STEPS = 200
RATIO = 5.0  # required speed with gradients, in units of Newton's captured graph
CHAIN = 30  # joints of the chain
AXES = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))


@dataclass(frozen=True)
class Arms:
    """A batch of worlds with an arm: hinges about changing axes, one link after the other, that swings freely."""

    count: int
    joints: int = 6
    length: float = 0.25  # of a link [m]
    damping: float = 0.1  # [N m s]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1e-3  # [s]
    seed: int = 0

    @property
    def inertia(self) -> np.ndarray:
        """Of a link about its centre [m^2], per mass."""
        return np.diag([self.length**2 / 12, 1e-3, self.length**2 / 12])

    @cached_property
    def mass(self) -> np.ndarray:
        """Of the links [kg], [B, J]."""
        return np.random.default_rng((self.seed, 0)).uniform(0.5, 1.5, (self.count, self.joints))

    @cached_property
    def angle(self) -> np.ndarray:
        """[rad], [B, J]."""
        return np.random.default_rng((self.seed, 1)).uniform(-0.5, 0.5, (self.count, self.joints))

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final angles in the loss, [B, J]."""
        return np.random.default_rng((self.seed, 2)).normal(size=(self.count, self.joints))

    def axis(self, joint: int) -> tuple[float, float, float]:
        """Returns the axis of a joint."""
        return AXES[joint % len(AXES)]

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns masses and initial angles, a leaf [B] for each joint."""
        columns = {name: getattr(self, name).T for name in ("mass", "angle")}
        return {
            f"{name}{k}": torch.tensor(own, dtype=dtype) for name, all in columns.items() for k, own in enumerate(all)
        }

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """Returns all worlds as one scene with a batch dimension."""
        links: dict[str, gs.Link] = {}
        for k in range(self.joints):
            mass, angle = unknowns[f"mass{k}"], unknowns[f"angle{k}"]
            inertia = torch.as_tensor(self.mass[:, k, None, None] * self.inertia, dtype=mass.dtype)
            joint = gs.Revolute(self.axis(k), angle, damping=self.damping)
            place: dict[str, Any] = {"parent": f"link{k - 1}", "position": (0.0, -self.length, 0.0)} if k else {}
            center = (0.0, -self.length / 2, 0.0)
            links[f"link{k}"] = gs.Link(joint, mass=mass, center=center, inertia=inertia, **place)
        return gs.Scene([gs.Articulated("arm", links)], gravity=(0.0, self.gravity, 0.0))

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Returns the angles after `steps` steps [rad], [B, J]."""
        fps = 1.0 / (self.dt * steps)
        motion = gs.simulate(scene, frames=2, fps=fps, substeps=steps, integrator=INTEGRATOR)["arm"]
        return motion.angles[..., -1, :]


@dataclass(frozen=True, kw_only=True)
class ArmsRow(Speeds):
    """One thread count: steps of all worlds, with gradients of all masses and initial angles."""

    worlds: int
    threads: int  # of gradsim; Newton uses one on a CPU


@dataclass(frozen=True)
class ArmsResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[ArmsRow, ...]
    chain: float  # time of a step of the chain in one world on one thread, float64 [us]
    mujoco_chain: float | None  # the same in MuJoCo
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        chain = {"joints": CHAIN, "us": self.chain, "mujoco_us": self.mujoco_chain}
        rows = [row.as_dict() for row in self.rows]
        return {"machine": asdict(self.machine), "steps": STEPS, "note": self.note, "rows": rows, "chain": chain}


def measure_arms(
    *, peer: bool = True, seconds: float = 1.0, steps: int = STEPS, progress: Progress = no_progress
) -> ArmsResults:
    """Measures steps a second of all arms in single precision, and the time of a step of the chain in double."""
    note = missing_peer_note(import_newton) if peer else None
    with_newton = peer and note is None
    threads: Sequence[int] = sorted({1, torch.get_num_threads()})
    arms, calls = Arms(WORLDS), dict[str, Call]()
    progress(f"{WORLDS} arms of six joints{', and Newton' if with_newton else ''}")
    for count in threads:
        for name, call in rollout_calls(arms, torch.float32, steps).items():
            calls[f"{name} {count}"] = on_threads(count, call)
    if with_newton:
        from benchmarks.newton_arms import NewtonArms

        calls |= NewtonArms(arms, steps=steps).calls()
    times = minimum_times(calls, seconds=seconds)
    speeds = {name: WORLDS * steps / time for name, time in times.items()}
    progress(f"a chain of {CHAIN} joints, and MuJoCo")
    chain = Arms(1, CHAIN, length=0.1)
    chain_calls = {"gradsim": on_threads(1, rollout_calls(chain, torch.float64, steps)["forward"])}
    chain_calls |= _mujoco_call(chain, steps) if peer else {}
    own = minimum_times(chain_calls, seconds=seconds)
    rows = [
        ArmsRow(
            worlds=WORLDS,
            threads=count,
            forward=speeds[f"forward {count}"],
            forward_backward=speeds[f"forward_backward {count}"],
            **newton_fields(speeds),
        )
        for count in threads
    ]
    step_times = {name: 1e6 * time / steps for name, time in own.items()}
    machine = this_machine("torch", "warp-lang", "newton", "mujoco")
    return ArmsResults(tuple(rows), step_times["gradsim"], step_times.get("mujoco"), machine, note)


def _mujoco_call(arms: Arms, steps: int) -> dict[str, Call]:
    """Returns a rollout of the first arm in MuJoCo with semi-implicit Euler; nothing where it is not installed."""
    try:
        import mujoco
    except ImportError:
        return {}
    spec = mujoco.MjSpec()
    spec.option.timestep, spec.option.gravity = arms.dt, (0.0, arms.gravity, 0.0)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)  # damping explicit, as in gradsim
    body = spec.worldbody
    for k in range(arms.joints):
        body = body.add_body(pos=(0.0, -arms.length if k else 0.0, 0.0))
        body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=arms.axis(k), damping=[arms.damping, 0.0, 0.0])
        body.explicitinertial, body.mass = True, arms.mass[0, k]
        body.ipos, body.inertia = (0.0, -arms.length / 2, 0.0), arms.mass[0, k] * np.diag(arms.inertia)
    model = spec.compile()
    data = mujoco.MjData(model)

    def run() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:] = arms.angle[0]
        mujoco.mj_step(model, data, steps)

    return {"mujoco": run}


def section(results: ArmsResults) -> Section:
    """Returns the section of the report."""
    requirements = [
        Requirement(
            f"arms: {row.worlds} worlds, {row.threads} thread(s), gradients: at least {RATIO:g} times Newton's graph",
            f"{row.ratio_forward_backward:.2f}",
            row.ratio_forward_backward >= RATIO,
        )
        for row in results.rows
        if row.ratio_forward_backward is not None
    ]
    return Section("Arms", table(results), results.as_dict(), tuple(requirements))


def table(results: ArmsResults) -> Table:
    """Returns the measurements as a table."""
    title = (
        "Arms of six joints, float32:\n"
        f"thousand steps a second of all worlds, rollouts of {STEPS} steps: forward / with backward"
    )
    found = new_table(title, ("worlds", "threads", *HEADINGS))
    for row in results.rows:
        found.add_row(f"{row.worlds:,}", str(row.threads), *row.columns())
    remark = "threads: gradsim's; Newton's Featherstone solver uses one on a CPU"
    if results.mujoco_chain is not None:
        times = f"{results.chain:.1f} us a step, MuJoCo {results.mujoco_chain:.1f} us"
        remark += f"\nchain of {CHAIN} joints, one world, one thread, float64, semi-implicit Euler: {times}"
    found.caption = footer(results.machine, remark, results.note)
    return found
