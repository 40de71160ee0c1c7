"""Warning of bodies that creep, although friction could hold them, because the default friction is viscous.

Regularized friction is kf |u| at low slip speeds u: a body on a slope, or in a stack that leans, moves on where
Coulomb's law holds it. The check looks for rigid bodies that contact supports, that drift steadily without turning, and
that are slower than mu m g / (n kf), the speed at which viscous friction of n points reaches Coulomb's limit. It looks
at the second half of the frames, in the first world of a batch. A `kf` other than the default, and `gs.Regularized()`,
are the user's choice and are not questioned. Bodies that another one carries along creep with it and are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from gradsim.scene.bodies import contact_of
from gradsim.scene.errors import ContactWarning
from gradsim.scene.materials import DEFAULT_KF, Contact
from gradsim.scene.pairs import pairs_by_names
from gradsim.scene.quantity import is_zero, to_numpy
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.compiled_scene import CompiledScene
from gradsim.simulate.compliance import flat_and_reach
from gradsim.simulate.passing import first_world
from gradsim.simulate.state.kernels.rigid import ROWS as RIGID

GRAVITY = slice(RIGID.gravity_x, RIGID.gravity_x + 3)
MIN_FRAMES, SAMPLES = 6, 9  # of a rollout that is looked at; frames of its second half, at most
CHECKS = 4  # rollouts of scenes of equal structure that are looked at
DRIFT = 0.01  # of a body's size, for a motion that matters
UNIFORM, ASIDE = 0.1, 0.5  # deviations from uniform motion, along and across, relative to the drift
ALONG_GRAVITY = 0.8  # cosine of drift and gravity above which a body sinks rather than creeps
SUPPORTED = 0.2  # of the change of speed in free fall, below which contact supports a body


class Candidate(NamedTuple):
    """A rigid body with the default friction."""

    name: str
    place: int  # among the rigid bodies
    limit: float  # speed below which its friction is viscous [m/s]
    size: float  # [m]


class _Motion(NamedTuple):
    """Motion of all rigid bodies in the first world at some frames, [K, bodies, ...]."""

    p: np.ndarray
    q: np.ndarray
    t: np.ndarray  # [s], [K]


def warn_of_creep(
    scene: Scene, compiled: CompiledScene, states: Mapping[str, torch.Tensor], times: torch.Tensor
) -> None:
    """Warns once of each rigid body that creeps; `states` are [..., T, count, width] at `times` [s], [T]."""
    if "rigid.p" not in states or len(times) < MIN_FRAMES:
        return
    left: list[int] = compiled.topology.constant("checks of creep", lambda: [CHECKS])
    if left[0] == 0:
        return
    left[0] -= 1
    candidates = list(_candidates(scene, compiled))
    if not candidates:
        return
    rows = compiled.array("rigid")[0].astype(np.float64)
    motion = _second_half(states, times)
    speeds = {body: speed for body in candidates if (speed := _steady_speed(body, motion, rows)) > 0.0}
    carriers = np.ones(rows.shape[1], dtype=bool)  # bodies that creep, and those that are no candidates
    carriers[[body.place for body in candidates if body not in speeds]] = False
    creeping = {
        body.name: speed for body, speed in speeds.items() if not _is_carried(body, motion, rows, carriers, candidates)
    }
    known: set[str] = compiled.topology.constant("bodies that creep", set)
    for name in creeping.keys() - known:
        known.add(name)
        warnings.warn(_message(name, creeping[name]), ContactWarning, stacklevel=3)


def _message(name: str, speed: float) -> str:
    return (
        f"'{name}' creeps at {speed:.2g} m/s although friction could hold it: with the default kf, friction is viscous "
        "at low speeds. friction=gs.Sticking() in its gs.Contact or gs.Ground holds it; friction=gs.Regularized() "
        "keeps the viscous law without this warning"
    )


def _candidates(scene: Scene, compiled: CompiledScene) -> Iterator[Candidate]:
    """Yields the rigid bodies with the default friction that nothing but contact and gravity moves."""
    moving = any(shape.motion is not None or not is_zero(shape.surface_velocity) for shape in scene.obstacles.values())
    if scene.forces or moving:
        return
    rows = compiled.array("rigid")[0]
    for body in scene.bodies:
        if isinstance(body, Rigid) and body.motion is None and not body.pushes:
            index = compiled.topology.ranges["rigid", body.name][0]
            weight = float(np.linalg.norm(rows[GRAVITY, index])) / rows[0, index]
            points, reach = flat_and_reach(compiled, body.name)
            limit = max((_friction(law) * weight / count for law, count in _laws(body, scene, points)), default=0.0)
            if limit > 0.0:
                yield Candidate(body.name, index, limit, 2.0 * reach)


def _laws(body: Rigid, scene: Scene, points: float) -> Iterator[tuple[Contact, float]]:
    """Yields the contact parameters of a body, and the number of points that each `kf` counts for."""
    for name, shape in scene.obstacles.items():
        yield contact_of(body, name, shape), points
    if scene.has_pairs:
        named = [contact for pair, contact in pairs_by_names(scene).items() if body.name in pair]
        own = list(body.contact.values()) if isinstance(body.contact, Mapping) else [body.contact or Contact()]
        yield from ((contact, 1.0) for contact in (*named, *own) if contact is not None)


def _friction(law: Contact) -> float:
    """Returns mu / kf of the default friction [m/(N s)], 0 of any other."""
    kf, mu = to_numpy(law.viscous_kf), to_numpy(law.mu)
    if law.friction is not None or kf is None or mu is None or not np.all(kf == DEFAULT_KF):
        return 0.0
    return float(mu.flat[0]) / DEFAULT_KF


def _second_half(states: Mapping[str, torch.Tensor], times: torch.Tensor) -> _Motion:
    frames = len(times)
    chosen = np.unique(np.linspace(frames // 2, frames - 1, SAMPLES).round().astype(int))
    p, q = (first_world(states[f"rigid.{name}"], chosen) for name in "pq")
    return _Motion(p, q, times.cpu().numpy()[chosen])


def _steady_speed(body: Candidate, motion: _Motion, rows: np.ndarray) -> float:
    """Returns the speed at which a body drifts steadily, supported by contact [m/s]; 0 if it does not."""
    p, q, t = motion.p[:, body.place], motion.q[:, body.place], motion.t - motion.t[0]
    gravity, drift = rows[GRAVITY, body.place], p[-1] - p[0]
    distance, g = float(np.linalg.norm(drift)), float(np.linalg.norm(gravity))
    speed = distance / float(t[-1])
    if distance < DRIFT * body.size or speed > min(body.limit, SUPPORTED * g * t[-1]):
        return 0.0
    parts = (p - p[0]) @ drift / distance**2  # from 0 to 1
    uneven = np.abs(parts - t / t[-1]).max()
    aside = np.linalg.norm(p - p[0] - parts[:, None] * drift, axis=1).max()
    turned = 2.0 * np.arccos(np.minimum(np.abs(q @ q[0]), 1.0)).max() * body.size / 2
    falls = abs(drift @ gravity) > ALONG_GRAVITY * distance * g
    is_steady = uneven < UNIFORM and max(aside, turned) < ASIDE * distance and not falls
    return speed if is_steady else 0.0


def _is_carried(
    body: Candidate, motion: _Motion, rows: np.ndarray, carriers: np.ndarray, candidates: list[Candidate]
) -> bool:
    """Returns whether a lower body nearby, one of the carriers, moves along with a body."""
    apart, drifts = motion.p[-1] - motion.p[-1, body.place], motion.p[-1] - motion.p[0]
    reach = np.full(len(apart), np.inf)  # bodies of unknown size are near
    for other in candidates:
        reach[other.place] = (body.size + other.size) / 2
    own = drifts[body.place]
    alike = np.linalg.norm(drifts - own, axis=1) < 0.5 * np.linalg.norm(own)
    is_lower = apart @ rows[GRAVITY, body.place] > 0.0
    return bool((carriers & alike & is_lower & (np.linalg.norm(apart, axis=1) < reach)).any())
