"""What an observation determines of the many unknowns of Table 3: singular values of its Jacobian at the truth.

The unknowns are relative to the size of the true values. Noise of standard deviation s then makes an error of s / v
along a direction with the singular value v, if nothing is known beforehand. "Determined" counts the directions that
frames rounded to 8 bits, or positions with errors of a millimetre, determine as well as the table asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from gradsim.datasets.recording import record
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.paper.deformable import ALLOWED, INSTANCES, SIDE, STATES, VIDEO, Instance

STEP = 1e-5  # of the central differences, relative to the size of the true values
WORLDS = 32  # in one rollout
NOISE = {VIDEO: 1.0 / (255.0 * math.sqrt(12.0)), STATES: 1e-3}  # of frames rounded to 8 bits, of positions [m]
KINDS = ("ball", "cloth")  # objects with unknowns for each node
COLUMNS = (
    Column("object", "", 8),
    Column("method", "", 12),
    Column("unknowns", "d", 9),
    Column("largest", ".1e", 9),
    Column("median", ".1e", 9),
    Column("smallest", ".1e", 9),
    Column("determined", "d", 11),
    Column("error", ".1e", 9),
)


def jacobian(subject: Instance, method: str) -> torch.Tensor:
    """Returns derivatives [P, N] of the frames, or of the positions of the nodes [m], at the truth."""
    ((path, true),) = subject.truth.items()
    body, truth = path.partition(".")[0], torch.as_tensor(true)
    scale = truth if bool((truth > 0).all()) else truth.square().mean().sqrt().expand_as(truth)
    steps = STEP * scale * torch.eye(truth.numel(), dtype=truth.dtype).view(-1, *truth.shape)
    columns = []
    with torch.no_grad():
        for part in steps.split(WORLDS // 2):
            scene = subject.scene.with_values({path: truth + torch.cat([part, -part])})
            trajectory, videos = record(scene, subject.time, *([SIDE] if method == VIDEO else []))
            observed = videos[0] if method == VIDEO else trajectory[body].vertices
            ahead, behind = observed.flatten(1).chunk(2)
            columns.append((ahead - behind) / (2 * STEP))
    return torch.cat(columns)


def case(kind: str, method: str, seed: int, *, coarse: bool = False) -> Case:
    """Returns the case of one object and one kind of observation."""

    def run(progress: Progress) -> Row:
        subject = INSTANCES[kind](seed, 0, coarse=coarse)
        (unknown,) = subject.names
        values = torch.linalg.svdvals(jacobian(subject, method))
        errors = NOISE[method] / values
        return {
            "object": kind,
            "method": method,
            "unknowns": subject.size,
            "largest": float(values[0]),
            "median": float(values[len(values) // 2]),
            "smallest": float(values[-1]),
            "determined": int((errors <= ALLOWED[unknown]).sum()),
            "error": float(errors.square().mean().sqrt()),
            "values": values.tolist(),
        }

    return Case(f"seed {seed}, {kind} from {method}{', coarse' if coarse else ''}", run)


def experiment(seed: int = 0, *, coarse: bool = False) -> Experiment:
    """Singular values of the first ball and the first cloth; "error" is that of the noise alone, without priors."""
    cases = tuple(case(kind, method, seed, coarse=coarse) for kind in KINDS for method in (STATES, VIDEO))
    return Experiment("paper-determined", "Table 3: singular values", COLUMNS, cases, claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Exact frames determine everything: rounding of about 1e-12 makes smaller errors than the table asks for."""
    return [
        Claim(f"smallest singular value, {row['object']} from {row['method']}", row["smallest"], at_least=1e-8)
        for row in rows
    ]
