"""Table 4 of the paper, left: the mass of an object when the model is wrong, and what the fit itself says about it.

Rigid objects, soft balls and sheets in equal parts, without an impulse: the mass shows in the contact with a ground
that is known, and in the drag of a sheet. Targets are exact frames of the true scene, or path-traced ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.datasets import deformable, rigid
from gradsim.datasets.recording import record
from gradsim.datasets.sample import generators
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.protocol import fit_video
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.render import render
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.body import Body
from gradsim.scene.looks import Look
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.quantity import per_element
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown, unknown

SIDE = 64  # frame height and width [px]
FRAMES, FPS = 45, 30.0
STIFF = 2e4  # Lamé parameters of a rigid object that is modelled as deformable [Pa]
PLAIN = Look(color=(0.8, 0.5, 0.3), smooth=0.0)  # of boxes
RIGID, SOFT, CLOTH = "rigid", "soft ball", "cloth"
PAPER = {
    "no friction": 0.1866,
    "elastic collisions": 0.2281,
    "rigid as deformable": 0.3462,
    "deformable as rigid": 0.4974,
    "photorealistic target": 0.1793,
    "perfect model": 0.1071,
}
HONEST = 0.9  # least fraction of wrong models that are inside their interval or not certain
COLUMNS = (
    Column("model", "", 22),
    Column("object", "", 10),
    Column("error", ".1e", 9),
    Column("half width", ".1e", 11),
    Column("inside", "", 7),
    Column("certain", "", 8),
    Column("status", "", 27),
    Column("cause", "", 50),
    Column("seconds", ".0f", 8),
)


@dataclass(frozen=True)
class Subject:
    """A true scene, the scene that is fitted, and the density of the body."""

    true: Scene
    fitted: Scene
    path: str  # of the density
    density: float
    substeps: int


def _rigid(rng: np.random.Generator, density: Any, number: int, seed: int) -> Scene:
    sample = rigid.sample(seed, number)
    known = {path: value for path, value in sample.truth.items() if path != "body.density"}
    scene = sample.scene.with_values(known)
    body = scene["body"]
    assert isinstance(body, Rigid)
    return dataclasses.replace(scene, bodies=[dataclasses.replace(body, density=density, pushes=[])])


def _box(rng: np.random.Generator, density: Any, number: int, seed: int) -> Scene:
    """A rigid box: the object of the rows in which a rigid object is modelled as deformable."""
    scene = _rigid(rng, density, number, seed)
    body = scene["body"]
    assert isinstance(body, Rigid)
    changed = dataclasses.replace(body, mesh=box(np.asarray(body.size)), size=None, look=PLAIN)
    return dataclasses.replace(scene, bodies=[changed])


def _ball(rng: np.random.Generator, density: Any, number: int, seed: int) -> Scene:
    mu, lam = rng.uniform(500.0, 2000.0, 2)
    velocity = rng.uniform((1.0, -1.0, -0.3), (2.2, 0.5, 0.3))
    return deformable.ball(density, mu, lam, radius=rng.uniform(0.2, 0.3), velocity=velocity)


def _sheet(rng: np.random.Generator, density: Any, number: int, seed: int) -> Scene:
    """A sheet that falls to the ground and slides."""
    scene = deformable.cloth(rng.uniform((0.6, -1.2, -0.3), (1.2, -0.4, 0.0)), stiffness=rng.uniform(30.0, 80.0))
    body = scene["cloth"]
    assert isinstance(body, Cloth)
    sheet = dataclasses.replace(body, density=density, position=(-0.5, 0.55, 0.0))
    ground = Ground(ke=20.0, kd=0.05, kf=0.2, mu=0.4, delta=0.01)
    return dataclasses.replace(scene, bodies=[sheet], ground=ground)


@dataclass(frozen=True)
class Kind:
    """A kind of object: its scene as a function of the density, and the range of densities."""

    scene: Callable[[np.random.Generator, Any, int, int], Scene]
    body: str
    densities: tuple[float, float]
    substeps: int


KINDS = {
    RIGID: Kind(_rigid, "body", (2.0, 12.0), rigid.SUBSTEPS),
    SOFT: Kind(_ball, "ball", (5.0, 15.0), deformable.SUBSTEPS["ball"]),
    CLOTH: Kind(_sheet, "cloth", (0.08, 0.25), deformable.SUBSTEPS["cloth"]),
}
BOX = dataclasses.replace(KINDS[RIGID], scene=_box)


def _ground_with(**changes: Any) -> Callable[[Scene], Scene]:
    def change(scene: Scene) -> Scene:
        assert isinstance(scene.ground, Ground)
        return dataclasses.replace(scene, ground=dataclasses.replace(scene.ground, **changes))

    return change


def _as_deformable(scene: Scene) -> Scene:
    """A rigid box as a stiff soft body."""
    body = scene["body"]
    assert isinstance(body, Rigid)
    mesh = meshes.tet_box(np.ptp(body.mesh.vertices, axis=0), 3)
    soft = Soft(
        "body",
        mesh,
        density=body.density,
        material=NeoHookean(mu=STIFF, lam=STIFF, damping=5.0),
        position=body.position,
        rotation=body.rotation,
        velocity=per_element(_node_velocities(body, mesh)),
        look=PLAIN,
    )
    return dataclasses.replace(scene, bodies=[soft])


def _node_velocities(body: Rigid, mesh: meshes.TetMesh) -> np.ndarray:
    """Returns the initial velocities of the nodes of a box that moves like a rigid body [m/s], [N, 3]."""
    turned = rotate(torch.as_tensor(np.asarray(body.rotation)), torch.tensor(mesh.vertices)).numpy()
    return np.asarray(body.velocity) + np.cross(np.asarray(body.angular_velocity), turned)


def _as_rigid(scene: Scene) -> Scene:
    """A soft ball as a rigid body with the same surface."""
    body = scene["ball"]
    assert isinstance(body, Soft)
    nodes, faces = np.unique(body.mesh.surface, return_inverse=True)
    surface = meshes.TriMesh(body.mesh.vertices[nodes], faces.reshape(-1, 3))
    hard: Body = Rigid(
        "ball",
        surface,
        density=body.density,
        position=body.position,
        velocity=body.velocity,
        look=body.look,
    )
    return dataclasses.replace(scene, bodies=[hard])


def _same(scene: Scene) -> Scene:
    return scene


@dataclass(frozen=True)
class Model:
    """A row of the table: how the fitted scene differs from the true one, and for which objects."""

    change: Callable[[Scene], Scene] = _same
    kinds: tuple[str, ...] = (RIGID, SOFT, CLOTH)
    renderer: Any = None  # of the target
    box: bool = False  # whether rigid objects are boxes


MODELS = {
    "no friction": Model(_ground_with(mu=0.0)),
    "elastic collisions": Model(_ground_with(kd=0.0)),
    "rigid as deformable": Model(_as_deformable, (RIGID,), box=True),
    "deformable as rigid": Model(_as_rigid, (SOFT,)),
    "photorealistic target": Model(renderer=Mitsuba(samples=64)),
    "perfect model": Model(),
}


def subject(model: Model, name: str, number: int, seed: int) -> Subject:
    """Returns the scenes of one object."""
    kind = BOX if model.box else KINDS[name]
    rng, guesses = generators(seed, number)
    density, start = rng.uniform(*kind.densities), guesses.uniform(*kind.densities)
    scene_seed = int(rng.integers(2**31))
    low, high = kind.densities[0] / 2, kind.densities[1] * 2
    true = kind.scene(np.random.default_rng(scene_seed), density, number, seed)
    guess: Unknown = unknown(start, low=low, high=high)
    fitted = model.change(kind.scene(np.random.default_rng(scene_seed), guess, number, seed))
    return Subject(true, fitted, f"{kind.body}.density", density, kind.substeps)


def case(model: str, kind: str, number: int, seed: int) -> Case:
    """Returns the case of one model error and one object."""

    def run(progress: Progress) -> Row:
        own = subject(MODELS[model], kind, number, seed)
        with torch.no_grad():
            trajectory, videos = record(own.true, Time(FRAMES, FPS, own.substeps), *([] if _traced(model) else [SIDE]))
            renderer = MODELS[model].renderer
            video = render(own.true, trajectory, (SIDE, SIDE), renderer=renderer) if _traced(model) else videos[0]
        fit = fit_video(own.fitted, video, progress, fps=FPS, substeps=own.substeps, bootstrap=False)
        value, (low, high) = float(fit.values[own.path]), (float(end) for end in fit.intervals[own.path])
        return {
            "model": model,
            "object": kind,
            "error": abs(value - own.density) / own.density,
            "half width": (high - low) / 2 / own.density,
            "inside": "yes" if low <= own.density <= high else "no",
            "certain": "yes" if fit.certain else "no",
            "status": fit.status,
            "cause": fit.misfit.causes[0].description if fit.misfit.causes else "",
            "seconds": fit.seconds,
        }

    return Case(f"seed {seed}, {model}, {kind} {number}", run)


def _traced(model: str) -> bool:
    return MODELS[model].renderer is not None


def experiment(objects: int, seed: int = 0, *, mitsuba: bool = True) -> Experiment:
    """Relative errors of the mass of a number of objects for each model; a third of it where one kind applies.

    Kinds of objects take turns, and each model begins with another one. Without Mitsuba there is no photorealistic
    target.
    """
    cases = []
    for place, (name, model) in enumerate(MODELS.items()):
        count = math.ceil(objects * len(model.kinds) / len(KINDS))
        if mitsuba or model.renderer is None:
            for k in range(count):
                kind = model.kinds[(place + k) % len(model.kinds)]
                cases.append(case(name, kind, k // len(model.kinds), seed))
    return Experiment("paper-imperfect", "Table 4, left: wrong models", COLUMNS, tuple(cases), claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    wrong = [row for row in rows if row["model"] != "perfect model"]
    right = [row for row in rows if row["model"] == "perfect model"]
    found = []
    if wrong:
        honest = np.mean([row["inside"] == "yes" or row["certain"] == "no" for row in wrong])
        text = "fraction of wrong models whose interval contains the truth or that are not certain"
        found.append(Claim(text, float(honest), at_least=HONEST))
    if right:
        error = float(np.mean([row["error"] for row in right]))
        found.append(Claim("mean relative error of the perfect model", error, at_most=1e-6))
    return found


def means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Returns for each model: mean error, fraction certain, fraction honest, number of objects."""
    found = {}
    for model in MODELS:
        own = [row for row in rows if row["model"] == model]
        if own:
            found[model] = {
                "error": float(np.mean([row["error"] for row in own])),
                "certain": float(np.mean([row["certain"] == "yes" for row in own])),
                "honest": float(np.mean([row["inside"] == "yes" or row["certain"] == "no" for row in own])),
                "objects": len(own),
            }
    return found
