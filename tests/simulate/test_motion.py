"""Prescribed motion of pinned nodes and static shapes: limits with an answer, gradients, native against portable."""

import math

import numpy as np
import pytest
import torch
from tests.simulate.differences import F64, assert_gradients, assert_native_equals_portable, tensors

import gradsim as gs
from gradsim.scene.errors import InvalidInput, WrongShape, WrongType
from gradsim.scene.rotation import multiply, rotate

INTEGRATORS = [gs.SymplecticEuler(), gs.Midpoint(), gs.RungeKutta4()]
MESH = gs.meshes.tet_box((0.4, 0.1, 0.1), (4, 1, 1))
LEFT = gs.Region(high=(-0.19, None, None))


def by_type(value):
    return type(value).__name__


def turn_about(axis, angles):
    half = np.asarray(angles)[:, None] / 2
    return np.concatenate([np.sin(half) * np.asarray(axis), np.cos(half)], 1)


def clamp_values():
    rng = np.random.default_rng(0)
    angles = np.linspace(0.0, 0.8, 5)
    return tensors(
        {
            "displacement": 0.02 * rng.standard_normal((5, 3)).cumsum(0),
            "rotation": turn_about((0.0, 0.6, 0.8), angles) * 1.1,
            "center": [-0.1, 0.52, 0.01],
            "position": [0.0, 0.5, 0.0],
            "mu": 2e4,
            "density": 300.0,
        }
    )


def clamped(p, **motion):
    motion = motion or {"displacement": gs.Signal(p["displacement"]), "rotation": gs.Signal(p["rotation"])}
    body = gs.Soft(
        "beam",
        MESH,
        p["density"],
        material=gs.NeoHookean(p["mu"], 2e4, 20.0),
        position=p["position"],
        pinned=LEFT,
        motion=gs.Motion(center=p["center"], **motion),
    )
    return gs.Scene([body])


def test_pinned_nodes_follow_the_motion():
    turns = turn_about((0.0, 0.0, 1.0), np.linspace(0.0, 2.0, 81))
    shift = np.linspace([0.0, 0.0, 0.0], [0.3, 0.1, -0.2], 81)
    p = {"density": 300.0, "mu": 2e4, "position": (0.0, 0.5, 0.0), "center": (-0.2, 0.5, 0.0)}
    scene = clamped(p, displacement=gs.Signal(shift), rotation=gs.Signal(turns))
    trajectory = gs.simulate(scene, frames=21, fps=20.0, substeps=64)
    pinned, center = scene["beam"].pinned, torch.tensor([-0.2, 0.5, 0.0], dtype=F64)
    x, v = (getattr(trajectory["beam"], name)[:, pinned] for name in ("vertices", "velocities"))
    arm = torch.tensor(MESH.vertices[pinned]) + torch.tensor([0.0, 0.5, 0.0]) - center
    for frame in (0, 3, 10, 20):
        angle = 0.1 * frame
        c, s = math.cos(angle), math.sin(angle)
        R = torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]], dtype=F64)
        expected = center + arm @ R.T + torch.tensor(shift[4 * frame])
        assert (x[frame] - expected).abs().max() < 1e-12
        spin = torch.linalg.cross(torch.tensor([0.0, 0.0, 2.0], dtype=F64).expand_as(arm), arm @ R.T)
        velocity = spin + torch.tensor([0.3, 0.1, -0.2])
        assert (v[frame] - velocity).abs().max() < (1e-4 if 0 < frame < 20 else 1e-2)


def test_a_clamp_of_constant_velocity_is_a_change_of_frame():
    """With everything moving at the velocity of the clamp, the motion is that of a clamp at rest, displaced."""
    velocity = np.array([0.7, -0.3, 0.2])
    body = {"material": gs.NeoHookean(2e4, 2e4, 20.0), "pinned": LEFT}
    rest = gs.simulate(gs.Scene([gs.Soft("beam", MESH, 300.0, **body)]), frames=11, fps=20.0, substeps=64)
    path = gs.Motion(gs.Signal(np.stack([0 * velocity, velocity * 0.5])))
    moving = gs.Scene([gs.Soft("beam", MESH, 300.0, velocity=velocity, motion=path, **body)])
    moved = gs.simulate(moving, frames=11, fps=20.0, substeps=64)
    shift = torch.tensor(velocity) * moved.time[:, None, None]
    assert (rest.vertices[-1] - rest.vertices[0]).abs().max() > 1e-2
    assert (moved.vertices - shift - rest.vertices).abs().max() < 1e-12
    assert (moved.velocities[1:] - torch.tensor(velocity) - rest.velocities[1:])[
        :, scene_free(moving)
    ].abs().max() < 1e-10


def scene_free(scene):
    free = np.ones(len(MESH.vertices), bool)
    free[scene["beam"].pinned] = False
    return free


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=by_type)
def test_gradients_of_a_clamp_equal_differences(integrator):
    assert_gradients(clamped, clamp_values(), frames=5, fps=20.0, substeps=32, integrator=integrator)


def test_gradients_of_single_nodes_equal_differences_when_steps_are_recomputed():
    values = clamp_values()
    count = len(clamped(values)["beam"].pinned)
    generator = torch.Generator().manual_seed(1)
    values["displacement"] = 0.01 * torch.randn(3, count, 3, generator=generator, dtype=F64)
    del values["rotation"], values["center"]

    def build(p):
        return clamped({**p, "center": None}, displacement=gs.Signal(gs.per_element(p["displacement"])))

    assert_gradients(build, values, frames=5, fps=20.0, substeps=32, memory=50e3)


@pytest.mark.parametrize(
    ("integrator", "dtype"),
    [(gs.SymplecticEuler(), F64), (gs.Midpoint(), F64), (gs.Midpoint(), torch.float32)],
    ids=by_type,
)
def test_native_clamp_equals_portable_clamp(integrator, dtype):
    values = {name: torch.stack([v, v * 1.02]).to(dtype) for name, v in clamp_values().items()}
    assert_native_equals_portable(clamped(values), integrator, dtype)


def test_worlds_of_a_batch_move_independently():
    values = clamp_values()
    both = {name: torch.stack([v, v * 1.02]) for name, v in values.items()}
    batch = gs.simulate(clamped(both), frames=4, substeps=32)
    alone = gs.simulate(clamped({name: v[1] for name, v in both.items()}), frames=4, substeps=32)
    assert (batch.vertices[1] - alone.vertices).abs().max() < 1e-13


# --- shapes --------------------------------------------------------------------------------------------------------

BOX = gs.meshes.tet_box((0.3, 0.2, 0.2), (2, 1, 1))
LAW = {"ke": 3e3, "kd": 3.0, "kf": 20.0, "mu": 0.4, "delta": 0.01}


def bodies(velocity=(0.0, 0.0, 0.0), kinds=("soft", "cube", "ball")):
    v = np.asarray(velocity)
    made = {
        "soft": gs.Soft(
            "soft",
            BOX,
            300.0,
            material=gs.NeoHookean(2e4, 2e4, 10.0),
            position=(0.02, 0.33, 0.0),
            velocity=v + np.array([0.1, -1.0, 0.0]),
        ),
        "cube": gs.Rigid(
            "cube",
            gs.meshes.box(0.2),
            mass=1.0,
            position=(0.05, 0.34, 0.02),
            rotation=(0.2, 0.1, 0.3, 1.0),
            velocity=v + np.array([0.0, -1.0, 0.2]),
            angular_velocity=(1.0, 2.0, -1.0),
        ),
        "ball": gs.Ball(
            "ball", radius=0.1, mass=1.0, position=(0.05, 0.33, 0.03), velocity=v + np.array([0.0, -1.0, 0.0])
        ),
    }
    return [made[kind] for kind in kinds]


def shape_values(kind):
    rng = np.random.default_rng(3)
    angles = np.linspace(0.0, 1.0, 4)
    place = {
        "sphere": {"radius": 0.2, "position": [0.0, 0.0, 0.0]},
        "capsule": {"radius": 0.15, "start": [-0.2, 0.04, 0.05], "end": [0.22, 0.07, -0.03]},
        "box": {"size": [0.5, 0.4, 0.45], "position": [0.03, 0.0, 0.0], "rotation": [0.1, 0.0, 0.15, 1.0]},
        "plane": {"normal": [0.05, 1.0, 0.02], "offset": 0.2},
    }[kind]
    moving = {
        "displacement": 0.01 * rng.standard_normal((4, 3)),
        "surface_velocity": [[0.3, 0.0, 0.1], [0.1, 0.0, -0.2]],
    }
    if kind != "plane":
        moving |= {"turns": turn_about((0.6, 0.8, 0.0), angles), "center": [0.02, -0.05, 0.01]}
    return tensors({**place, **moving, "friction": 0.4})


SHAPES = {"sphere": gs.StaticSphere, "capsule": gs.StaticCapsule, "box": gs.StaticBox, "plane": gs.Ground}
PLACE = ("radius", "position", "start", "end", "size", "rotation", "normal", "offset")


def shape_scene(kind, p, kinds=("soft", "cube", "ball"), restitution=None):
    place = {name: value for name, value in p.items() if name in PLACE}
    law = {**LAW, "mu": p["friction"]}
    if restitution is not None:
        law = {**{k: v for k, v in law.items() if k != "kd"}, "restitution": restitution}
    if "displacement" in p:
        turns = {"rotation": gs.Signal(p["turns"]), "center": p["center"]} if "turns" in p else {}
        place["motion"] = gs.Motion(gs.Signal(p["displacement"]), **turns)
        place["surface_velocity"] = gs.Signal(p["surface_velocity"])
    return gs.Scene(bodies(kinds=kinds), shapes={"it": SHAPES[kind](**law, **place)}, pairs=False)


@pytest.mark.parametrize("moving", [True, False], ids=["moving", "at rest"])
@pytest.mark.parametrize("body", ["soft", "cube", "ball"])
@pytest.mark.parametrize("kind", list(SHAPES))
def test_gradients_of_shapes_equal_differences(kind, body, moving):
    values = shape_values(kind)
    if not moving:
        values = {name: value for name, value in values.items() if name in (*PLACE, "friction")}
    assert_gradients(lambda p: shape_scene(kind, p, (body,)), values, frames=4, fps=20.0, substeps=40)


@pytest.mark.parametrize("kind", list(SHAPES))
def test_gradients_of_shapes_equal_differences_with_restitution(kind):
    def build(p):
        return shape_scene(kind, p, ("cube", "ball"), 0.5)

    assert_gradients(build, shape_values(kind), frames=4, fps=20.0, substeps=64)


@pytest.mark.parametrize("moving", [True, False], ids=["moving", "at rest"])
@pytest.mark.parametrize("integrator", INTEGRATORS[:2], ids=by_type)
@pytest.mark.parametrize("kind", list(SHAPES))
def test_native_shapes_equal_portable_shapes(kind, integrator, moving):
    values = shape_values(kind)
    if not moving:
        values = {name: value for name, value in values.items() if name in (*PLACE, "friction")}
    both = {name: torch.stack([v, v * 1.02, v * 0.99]) for name, v in values.items()}
    assert_native_equals_portable(shape_scene(kind, both), integrator, steps=60)


@pytest.mark.parametrize("kind", list(SHAPES))
def test_a_shape_of_constant_velocity_is_a_change_of_frame(kind):
    values = {name: value for name, value in shape_values(kind).items() if name in (*PLACE, "friction")}
    velocity = np.array([0.4, 0.2, -0.3])
    rest = shape_scene(kind, values)
    law = {**LAW, "mu": 0.4, **{name: value for name, value in values.items() if name in PLACE}}
    path = gs.Motion(gs.Signal(np.stack([0 * velocity, velocity * 0.5])))
    moving = gs.Scene(bodies(velocity), shapes={"it": SHAPES[kind](**law, motion=path)}, pairs=False)
    a, b = (gs.simulate(scene, frames=11, fps=20.0, substeps=40) for scene in (rest, moving))
    for name in ("soft", "cube", "ball"):
        shift = torch.tensor(velocity) * b.time[:, None, None]
        assert (a[name].vertices[-1] - a[name].vertices[0]).abs().max() > 0.05
        assert (b[name].vertices - shift - a[name].vertices).abs().max() < 1e-9, name


def test_a_conveyor_accelerates_a_block_by_friction_up_to_its_speed():
    mu, g, speed = 0.3, 9.81, 0.8
    belt = gs.Ground(ke=1e4, kd=60.0, kf=200.0, mu=mu, surface_velocity=(speed, 0.0, 0.0))
    cube = gs.Rigid("cube", gs.meshes.box((0.4, 0.1, 0.4)), mass=2.0, position=(0.0, 0.049, 0.0))
    trajectory = gs.simulate(gs.Scene([cube], belt), frames=31, fps=30.0, substeps=128)
    velocity = trajectory["cube"].velocity[:, 0]
    early = trajectory.time[5]
    assert abs(velocity[5] - mu * g * early) < 0.02 * mu * g * early
    assert abs(velocity[-1] - speed) < 1e-3


def test_a_turning_sphere_carries_cloth_along():
    turns = turn_about((0.0, 1.0, 0.0), np.linspace(0.0, 1.5, 9))
    ball = gs.StaticSphere(ke=300.0, kd=0.05, kf=2.0, mu=1.0, radius=0.2, motion=gs.Motion(rotation=gs.Signal(turns)))
    mesh = gs.meshes.grid(0.4, 8)
    cloth = gs.Cloth("cloth", mesh, 0.3, material=gs.Membrane(50.0, 50.0, 0.05), position=(0.0, 0.205, 0.0), drag=0.5)
    moving = gs.simulate(gs.Scene([cloth], shapes={"ball": ball}), frames=16, fps=30.0, substeps=160)
    x = moving["cloth"].vertices[-1] - moving["cloth"].vertices[-1].mean(0)
    v = moving["cloth"].velocities[-1]
    spin = torch.linalg.cross(x, v)[:, 1].sum() / (x[:, [0, 2]] ** 2).sum()
    assert 1.0 < spin < 3.5  # [rad/s]; the sphere turns at 3 rad/s


# --- rigid bodies --------------------------------------------------------------------------------------------------


def driven_values():
    rng = np.random.default_rng(5)
    return tensors(
        {
            "displacement": 0.05 * rng.standard_normal((5, 3)).cumsum(0),
            "turns": turn_about((0.6, 0.0, 0.8), np.linspace(0.1, 1.5, 5)) * 0.9,
            "center": [0.1, 0.4, 0.0],
            "position": [0.3, 0.6, 0.05],
            "mass_center": [0.01, -0.02, 0.03],
            "start": [0.1, 0.2, 0.3, 1.0],
            "points": [[0.1, 0.02, 0.0], [-0.05, 0.1, 0.04]],
            "stiffness": 60.0,
        }
    )


def driven(p, *, tethered=True):
    """A rigid body that follows a motion, and a soft one that hangs on it by two tethers."""
    motion = gs.Motion(gs.Signal(p["displacement"]), gs.Signal(p["turns"]), p["center"])
    arm = gs.Rigid(
        "arm",
        gs.meshes.box(0.2),
        mass=1.3,
        center=p["mass_center"],
        position=p["position"],
        rotation=p["start"],
        motion=motion,
    )
    soft = gs.Soft("soft", BOX, 300.0, material=gs.NeoHookean(2e4, 2e4, 10.0), position=(0.0, 0.5, 0.0))
    points = gs.per_element(p["points"])
    rope = gs.Tether(
        "rope", body="soft", nodes=[0, 3], rigid="arm", points=points, stiffness=p["stiffness"], damping=2.0
    )
    return gs.Scene([soft, arm], forces=[rope]) if tethered else gs.Scene([arm], gs.Ground())


@pytest.mark.parametrize("tethered", [True, False], ids=["tethered", "alone"])
def test_a_driven_body_follows_the_motion(tethered):
    values = driven_values()
    trajectory = gs.simulate(driven(values, tethered=tethered), frames=9, fps=20.0, substeps=64)
    motion = trajectory["arm"]
    turns = values["turns"] / values["turns"].norm(dim=-1, keepdim=True)
    for k in range(5):  # samples of the motion are at every second frame
        q = multiply(turns[k], values["start"] / values["start"].norm())
        arm = rotate(turns[k], values["position"] - values["center"])
        assert (motion.position[2 * k] - values["center"] - arm - values["displacement"][k]).abs().max() < 1e-12
        assert min((motion.rotation[2 * k] - q).abs().max(), (motion.rotation[2 * k] + q).abs().max()) < 1e-12
    spin = 1.4 / 0.4  # [rad/s]
    axis = torch.tensor([0.6, 0.0, 0.8], dtype=F64)
    assert (motion.angular_velocity[4] - spin * axis).abs().max() < 0.05


def test_gradients_through_a_driven_body_equal_differences():
    assert_gradients(driven, driven_values(), frames=5, fps=20.0, substeps=40)
    alone = {name: value for name, value in driven_values().items() if name not in ("points", "stiffness")}

    def build(p):
        return driven({**driven_values(), **p}, tethered=False)

    assert_gradients(build, alone, frames=5, fps=20.0, substeps=64)


@pytest.mark.parametrize("tethered", [True, False], ids=["tethered", "alone"])
def test_native_driven_body_equals_portable_one(tethered):
    values = {name: torch.stack([v, v * 1.02, v * 0.97]) for name, v in driven_values().items()}
    assert_native_equals_portable(driven(values, tethered=tethered), gs.Midpoint(), steps=20)


# --- scene objects -------------------------------------------------------------------------------------------------


def test_motions_survive_scene_files_and_paths(tmp_path):
    scene = clamped(clamp_values())
    path = gs.Motion(gs.Signal([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]]))
    plate = gs.StaticBox(size=(1.0, 0.1, 1.0), motion=path, surface_velocity=(0.1, 0.0, 0.0))
    scene = gs.Scene(scene.bodies, shapes={"plate": plate})
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    a, b = (gs.simulate(s, frames=4, substeps=32).vertices for s in (scene, loaded))
    assert torch.equal(a, b)
    paths = {path for path, _, _ in loaded.quantities()}
    assert {"beam.motion.displacement", "plate.motion.displacement", "plate.size", "plate.surface_velocity"} <= paths
    changed = loaded.with_values({"plate.motion.displacement": np.zeros((3, 3)), "plate.position": (0.0, 0.1, 0.0)})
    assert changed.shapes["plate"].motion.sample_count == 3


def test_errors_name_the_remedy():
    shift = gs.Signal(np.zeros((3, 3)))
    with pytest.raises(InvalidInput, match="give the displacement or the rotation as a gs.Signal"):
        gs.Motion((0.0, 0.0, 0.0))
    with pytest.raises(WrongShape, match="same number of samples"):
        gs.Motion(shift, gs.Signal(np.ones((4, 4))))
    with pytest.raises(InvalidInput, match="give `pinned` as well"):
        gs.Soft("beam", MESH, 300.0, motion=gs.Motion(shift))
    with pytest.raises(WrongType, match="this moves as a whole"):
        gs.StaticSphere(motion=gs.Motion(gs.Signal(gs.per_element(np.zeros((3, 2, 3))))))
    with pytest.raises(InvalidInput, match="use gs.StaticBox"):
        gs.Ground(motion=gs.Motion(shift, gs.Signal(np.ones((3, 4)))))
