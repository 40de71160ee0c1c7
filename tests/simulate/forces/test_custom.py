"""Forces and integrators declared outside the package: gradients, signals, unknowns, scene files, errors."""

import itertools
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.simulate.forces.user_declarations import ChargedBody, Heun, Ralston3, Wind

import gradsim as gs

F64 = torch.float64
NO_GRAVITY = (0.0, 0.0, 0.0)
BOX = gs.meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))
DECLARATIONS = Path(__file__).parent / "user_declarations.py"


def values():
    given = {
        "mu": 4e3,
        "velocity": [[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [1.0, 1.0, 0.0]],
        "drag": np.linspace(0.01, 0.03, len(BOX.vertices)),
        "strength": [0.5, -1.0, 3.0],
        "charge": 0.4,
        "brake": 0.002,
        "mass": 1.2,
    }
    return {name: torch.tensor(value, dtype=F64) for name, value in given.items()}


def scene(p):
    soft = gs.Soft("soft", BOX, 100.0, material=gs.NeoHookean(p["mu"], 4e3, 2.0), position=(0.0, 0.13, 0.0))
    cube = gs.Rigid("cube", gs.meshes.box(0.2), mass=p["mass"], position=(1.0, 0.12, 0.0), angular_velocity=(1, 2, 0.5))
    wind = Wind("wind", velocity=gs.Signal(p["velocity"]), drag=gs.per_element(p["drag"]))
    charged = ChargedBody("charged", strength=p["strength"], charge=p["charge"], brake=p["brake"])
    return gs.Scene([soft, cube], gs.Ground(ke=1e3, kd=1.0, kf=2.0), forces=[wind, charged])


@pytest.mark.parametrize(
    "integrator", [gs.SymplecticEuler(), gs.Midpoint(), Heun(), Ralston3()], ids=lambda i: type(i).__name__
)
def test_gradients_of_own_forces_equal_central_differences(integrator):
    def loss(p):
        motion = gs.simulate(scene(p), frames=5, fps=30.0, substeps=40, integrator=integrator)
        weights = torch.cos(torch.arange(motion.vertices.shape[-2] * 3, dtype=F64)).view(-1, 3)
        return (motion.vertices[-1] * weights).sum() + 0.1 * (motion.velocities[-1] * weights).sum()

    leaves = {name: value.requires_grad_() for name, value in values().items()}
    loss(leaves).backward()
    generator = torch.Generator().manual_seed(2)
    for name, leaf in leaves.items():
        value = leaf.detach()
        direction = torch.randn(value.shape, generator=generator, dtype=F64) * value.abs().clamp(min=1e-3)
        errors = []
        for h in (1e-4, 1e-5, 1e-6):
            with torch.no_grad():
                ends = [loss({**leaves, name: value + sign * h * direction}) for sign in (1.0, -1.0)]
            difference = (ends[0] - ends[1]) / (2 * h)
            errors.append(((leaf.grad * direction).sum() - difference).abs().item() / difference.abs().item())
        assert min(errors) < 1e-6, (name, errors)


@pytest.mark.parametrize(("integrator", "order"), [(Heun(), 2), (Ralston3(), 3), (gs.RungeKutta4(), 4)])
def test_own_integrators_are_native_and_converge_with_their_order(integrator, order):
    """A tethered, tumbling pair: every part of the state, in the native world rollout."""
    ball = gs.Springs("ball", [[0.3, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5, velocity=(0.0, 1.0, 0.0))
    cube = gs.Rigid("cube", gs.meshes.box((0.1, 0.2, 0.3)), mass=2.0, angular_velocity=(3.0, 2.0, 1.0))
    rope = gs.Tether("rope", body="ball", nodes=0, rigid="cube", points=(0.05, 0.0, 0.1), stiffness=30.0, damping=0.1)
    pair = gs.Scene([ball, cube], gravity=NO_GRAVITY, forces=[rope])

    def end(steps):
        motion = gs.simulate(pair, frames=2, fps=2.0, substeps=steps, integrator=integrator)
        return motion.vertices[-1]

    exact = end(2048)
    errors = [(end(steps) - exact).abs().max().item() for steps in (32, 64, 128)]
    for coarse, fine in itertools.pairwise(errors):
        assert coarse / fine == pytest.approx(2**order, rel=0.25)


def test_drag_against_still_air_slows_down_exponentially():
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5, velocity=(2.0, 0.0, 0.0))
    still = gs.Scene([ball], gravity=NO_GRAVITY, forces=[Wind("air", drag=0.3)])
    motion = gs.simulate(still, frames=3, fps=2.0, substeps=200, integrator=gs.RungeKutta4())
    expected = [2.0 * math.exp(-0.6 * t) for t in (0.0, 0.5, 1.0)]
    assert motion["ball"].velocity[:, 0].tolist() == pytest.approx(expected, rel=1e-9)


def test_time_goes_on_in_a_continued_rollout():
    """The gusts depend on time: two rollouts in a row equal one."""
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5)
    windy = gs.Scene([ball], forces=[Wind("wind", velocity=(1.0, 0.0, 0.0), drag=0.3)])
    whole = gs.simulate(windy, frames=7, substeps=16)
    first = gs.simulate(windy, frames=4, substeps=16)
    rest = gs.simulate(windy, frames=4, substeps=16, start=first.final)
    assert torch.allclose(rest.vertices[-1], whole.vertices[-1], rtol=1e-12, atol=1e-14)


def test_single_precision_and_batches():
    drag = torch.tensor([0.1, 0.2, 0.4])
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5, velocity=(2.0, 0.0, 0.0))
    motion = gs.simulate(
        gs.Scene([ball], gravity=NO_GRAVITY, forces=[Wind("air", drag=drag)]), frames=2, fps=1.0, substeps=100
    )
    assert motion.vertices.dtype == torch.float32
    expected = 2.0 * torch.exp(-drag / 0.5)
    assert torch.allclose(motion["ball"].velocity[:, -1, 0], expected, rtol=1e-4)


def test_own_forces_are_estimated():
    def thrown(drag):
        ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=0.5, velocity=(2.0, 2.0, 0.0))
        return gs.Scene([ball], forces=[Wind("air", drag=drag)])

    target = gs.simulate(thrown(0.25), frames=12, substeps=8)
    fit = gs.minimize(
        lambda found: (gs.simulate(found, frames=12, substeps=8).vertices - target.vertices).flatten(-3),
        thrown(gs.unknown(0.05, low=0.0, high=1.0)),
        gs.GaussNewton(),
    )
    assert fit.values["air.drag"].item() == pytest.approx(0.25, rel=1e-6)


def test_scene_files_name_own_forces_and_integrators(tmp_path):
    scene(values()).save(tmp_path / "scene.yaml", time=gs.Time(integrator=Heun()))
    loaded = gs.load_scene_file(tmp_path / "scene.yaml")
    assert [type(force) for force in loaded.scene.forces] == [Wind, ChargedBody]
    assert isinstance(loaded.time.integrator, Heun)
    first, second = (gs.simulate(s, frames=3, substeps=40).vertices for s in (scene(values()), loaded.scene))
    assert torch.equal(first, second)


@pytest.mark.usefixtures("forget_declarations")
def test_scene_files_use_the_newest_declaration_of_a_name(tmp_path):
    """As after running a notebook cell again."""
    scene(values()).save(tmp_path / "scene.yaml")
    newer = dataclass(frozen=True, eq=False)(type("Wind", (Wind,), {}))
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert [type(force) for force in loaded.forces] == [newer, ChargedBody]


def test_the_command_line_imports_declarations(tmp_path):
    ball = gs.Springs("ball", [[0.0, 1.0, 0.0]], np.zeros((0, 2)), mass=0.5)
    view = gs.Camera(eye=(0.0, 1.0, 4.0), target=(0.0, 0.5, 0.0), fov=40)
    gs.Scene([ball], camera=view, forces=[Wind("air", drag=0.1)]).save(tmp_path / "scene.yaml")
    command = [sys.executable, "-m", "gradsim", "--import", str(DECLARATIONS), "simulate", str(tmp_path / "scene.yaml")]
    command += ["-o", str(tmp_path / "video.mp4")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    without = subprocess.run([*command[:3], *command[5:]], capture_output=True, text=True, timeout=300)
    assert without.returncode == 2
    assert "must be one of tether" in without.stderr


@dataclass(frozen=True, eq=False)
class Undeclared(gs.BodyForce):
    strength: gs.Quantity = gs.quantity(1.0, "N")


def test_wrong_declarations_are_refused():
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)))
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=1.0)
    with pytest.raises(gs.InvalidInput, match="wind = a force on no body: the scene needs a gs.Soft"):
        gs.Scene([cube], forces=[Wind("wind")])
    with pytest.raises(gs.InvalidInput, match=r"wind\.bodies = 'cube', a Rigid: must name a gs\.Soft"):
        gs.Scene([ball, cube], forces=[Wind("wind", bodies=["cube"])])
    with pytest.raises(gs.InvalidInput, match="declare how it acts"):
        gs.Scene([ball], forces=[Undeclared("odd")])
    with pytest.raises(gs.InvalidInput, match=r"must take 4 arguments: x, v, t, strength"):
        gs.node_force(lambda x, v: v)(Undeclared)
    with pytest.raises(gs.InvalidInput, match=r"gust.*is taken|ForceFamily.name = 'tet'"):
        gs.register_force_family(
            gs.ForceFamily(name="tet", rows=(), owners=(Undeclared,), elements=lambda force, place: None, kernels=None)
        )
    with pytest.raises(TypeError, match=r"Short\.stages\[1\] needs 2 weights"):
        type("Short", (gs.Integrator,), {"stages": gs.explicit_runge_kutta((1.0,), (1.0,)), "order": 1})


def test_stable_dt_counts_the_rate_of_an_own_force():
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=0.1)
    windy = gs.Scene([ball], forces=[Wind("air", drag=2.0)])
    assert gs.stable_dt(windy, gs.SymplecticEuler()) == pytest.approx(2.0 / 20.0)


def test_tensors_on_a_device_without_kernels_are_refused():
    ball = gs.Springs("ball", [[0.0, 0.0, 0.0]], np.zeros((0, 2)), mass=torch.ones((), device="meta"))
    with pytest.raises(gs.errors.UnsupportedDevice, match=r"ball\.mass = a tensor on meta: .*tensor\.cpu\(\)"):
        gs.simulate(gs.Scene([ball]), frames=2)
