"""Verdicts of estimates from noisy videos of another integrator: what a video determines, in metres and millimetres."""

import numpy as np
import pytest
import torch

import gradsim as gs

FPS, FRAMES, SIZE, NOISE = 10.0, 9, 32, 0.01
UNITS = {"metres": 1.0, "millimetres": 1000.0}  # lengths in a scene for one metre
SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
SPOTS = np.random.default_rng(1).uniform(0.1, 1.0, (320, 3))

units = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)


def camera(unit, distance=3.0) -> gs.Camera:
    return gs.Camera(eye=(0.0, 0.0, distance * unit), target=(0.0, 0.0, 0.0), fov=40.0)


def between(value, low, high, unit=1.0) -> gs.unknown:
    return gs.unknown(value * unit, low=low * unit, high=high * unit)


def spinning(spin, *, spots, unit=1.0) -> gs.Scene:
    """A ball that flies by and spins, of one colour or with a pattern."""
    look = gs.Look(face_colors=SPOTS) if spots else gs.Look(color=(0.8, 0.3, 0.2))
    place = {"position": (-0.3 * unit, 0.0, 0.0), "velocity": (0.8 * unit, 0.0, 0.0)}
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.4 * unit, 2), mass=1.0, angular_velocity=spin, look=look, **place)
    return gs.Scene([ball], gravity=(0.0, 0.0, 0.0), camera=camera(unit))


def falling(mass, *, impulse, unit=1.0) -> gs.Scene:
    """A thrown cube, with or without a push."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.5 * unit),
        mass=mass,
        position=(-0.5 * unit, 0.2 * unit, 0.0),
        velocity=(0.3 * unit, 0.8 * unit, 0.0),
        angular_velocity=(0.5, 1.0, 0.3),
        pushes=[gs.Push(impulse=(impulse * unit, 0.0, 0.0))] if impulse else [],
        look=gs.Look(face_colors=SIDES),
    )
    return gs.Scene([cube], gravity=(0.0, -3.0 * unit, 0.0), camera=camera(unit))


def on_incline(mu, *, slope, unit=1.0) -> gs.Scene:
    """A cube that lands on a ground along which gravity has a part `slope` of its normal part."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.4 * unit),
        mass=1.0,
        position=(-0.5 * unit, 0.25 * unit, 0.0),
        look=gs.Look(face_colors=SIDES),
    )
    ground = gs.Ground(ke=2000.0, kd=40.0, kf=200.0, mu=mu, look=None)
    gravity = (9.81 * slope * unit, -9.81 * unit, 0.0)
    view = gs.Camera(eye=(0.0, 0.5 * unit, 3.0 * unit), target=(0.0, 0.2 * unit, 0.0), fov=40.0)
    return gs.Scene([cube], ground=ground, gravity=gravity, camera=view)


def thrown(size, speed, distance, *, gravity, unit=1.0) -> gs.Scene:
    """A cube of unknown size that starts in the middle of the image of a camera at an unknown distance."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(1.0),
        size=(size, size, size),
        mass=1.0,
        velocity=(speed, 0.0, 0.0),
        angular_velocity=(0.5, 1.0, 0.3),
        look=gs.Look(face_colors=SIDES),
    )
    view = gs.Camera(eye=(0.0, 0.0, distance), target=(0.0, 0.0, 0.0), fov=40.0)
    return gs.Scene([cube], gravity=(0.0, -gravity * unit, 0.0), camera=view)


def fitted(true: gs.Scene, scene: gs.Scene) -> gs.Fit:
    motion = gs.simulate(true, frames=FRAMES, fps=FPS, substeps=1024, integrator=gs.RungeKutta4())
    video = gs.render(true, motion, (SIZE, SIZE))
    noise = torch.randn(video.shape, generator=torch.Generator().manual_seed(0), dtype=video.dtype)
    return gs.estimate(scene, video + NOISE * noise, fps=FPS)


def levels(fit: gs.Fit) -> set[str]:
    return {verdict.level for verdict in fit.identifiability.values()}


def check_determined(fit: gs.Fit, truth: dict[str, float]) -> None:
    """Everything is identifiable, and the values are right to three standard deviations."""
    assert fit.certain, str(fit)
    for path, value in truth.items():
        low, high = (float(end) for end in fit.intervals[path])
        assert abs(float(fit.values[path]) - value) < 0.75 * (high - low)


def check_undetermined(fit: gs.Fit) -> None:
    assert fit.status == "converged", str(fit)
    assert levels(fit) == {"not identifiable"}
    assert not fit.certain


@units
def test_spin_of_a_sphere(unit):
    spin = (0.0, 1.5, 0.0)
    guess = (0.0, gs.unknown(1.0, low=-4.0, high=4.0), 0.0)
    plain = fitted(spinning(spin, spots=False, unit=unit), spinning(guess, spots=False, unit=unit))
    check_undetermined(plain)
    marked = fitted(spinning(spin, spots=True, unit=unit), spinning(guess, spots=True, unit=unit))
    check_determined(marked, {"ball.angular_velocity[1]": 1.5})


@units
def test_mass_in_free_fall(unit):
    guess = between(5.0, 1.0, 20.0)
    free = fitted(falling(3.7, impulse=0.0, unit=unit), falling(guess, impulse=0.0, unit=unit))
    check_undetermined(free)
    assert "push the body" in free.identifiability["cube.mass"].reason
    pushed = fitted(falling(3.7, impulse=4.0, unit=unit), falling(guess, impulse=4.0, unit=unit))
    check_determined(pushed, {"cube.mass": 3.7})


@units
def test_friction_of_a_cube_that_sticks(unit):
    guess = between(0.5, 0.3, 0.9)
    sticking = fitted(on_incline(0.6, slope=0.1, unit=unit), on_incline(guess, slope=0.1, unit=unit))
    check_undetermined(sticking)
    assert "slips" in sticking.identifiability["ground.mu"].reason
    guess = between(0.12, 0.05, 0.9)
    slipping = fitted(on_incline(0.1, slope=0.25, unit=unit), on_incline(guess, slope=0.25, unit=unit))
    check_determined(slipping, {"ground.mu": 0.1})


@units
@pytest.mark.parametrize("gravity", [0.0, 3.0])
def test_distance_of_the_camera_and_scale(gravity, unit):
    values = {"size": between(0.42, 0.2, 0.8, unit), "speed": between(0.55, 0.2, 1.0, unit)}
    guess = thrown(**values, distance=between(3.2, 1.5, 6.0, unit), gravity=gravity, unit=unit)
    true = thrown(0.4 * unit, 0.5 * unit, 3.0 * unit, gravity=gravity, unit=unit)
    fit = fitted(true, guess)
    if gravity:
        check_determined(fit, {"camera.eye[2]": 3.0 * unit, "cube.velocity[0]": 0.5 * unit})
    else:
        check_undetermined(fit)
        (text,) = fit.undetermined_directions
        assert "camera.eye[2]" in text
        assert "cube.velocity[0]" in text
