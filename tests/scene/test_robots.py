"""Robots from URDF and MJCF files: forward dynamics as MuJoCo's, visuals, write-back, and hostile files."""

import warnings

import numpy as np
import pytest
import torch

import gradsim as gs

mujoco = pytest.importorskip("mujoco")

URDF = """<robot name="arm">
  <material name="red"><color rgba="0.8 0.1 0.1 1"/></material>
  <link name="base"><visual><geometry><cylinder radius="0.1" length="0.05"/></geometry></visual></link>
  <link name="upper-arm">
    <inertial><origin xyz="0.02 0 0.2" rpy="0.1 0.2 0.3"/><mass value="2.0"/>
      <inertia ixx="0.03" iyy="0.02" izz="0.025" ixy="0.002" ixz="-0.001" iyz="0.003"/></inertial>
    <visual><origin xyz="0 0 0.2"/><geometry><box size="0.1 0.08 0.4"/></geometry><material name="red"/></visual>
    <collision><origin xyz="0 0 0.2"/><geometry><box size="0.1 0.08 0.4"/></geometry></collision>
  </link>
  <link name="forearm">
    <inertial><origin xyz="0 0.01 0.15"/><mass value="1.1"/>
      <inertia ixx="0.012" iyy="0.013" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://arm_description/meshes/bar.obj" scale="1 1 1"/></geometry></visual>
  </link>
  <link name="tool"><inertial><origin xyz="0.03 0 0"/><mass value="0.3"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper-arm"/>
    <origin xyz="0 0 0.5" rpy="0.1 -0.2 0.3"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="10" velocity="5"/><dynamics damping="0.3"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper-arm"/><child link="forearm"/>
    <origin xyz="0 0 0.4" rpy="0 0.3 0.1"/><axis xyz="1 1 0"/></joint>
  <joint name="wrist" type="fixed"><parent link="forearm"/><child link="tool"/>
    <origin xyz="0 0 0.3" rpy="0.4 0 0"/></joint>
</robot>"""
OBJ = "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 0.3\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"

ARM = """<mujoco model="six"><compiler angle="radian"/><worldbody>
  <body name="b1" pos="0 0 0.3"><joint name="j1" axis="0 0 1" armature="0.1" damping="0.2"/>
    <geom type="capsule" size="0.05 0.15" rgba="0.1 0.7 0.2 1"/>
    <body name="b2" pos="0 0 0.2" euler="0.2 0.3 0"><joint name="j2" axis="0 1 0" pos="0.02 0 0.01" ref="0.4"/>
      <inertial pos="0 0 0.2" mass="3" diaginertia="0.05 0.04 0.02"/>
      <body name="b3" pos="0 0 0.4"><joint name="j3" axis="0 1 0.2" stiffness="2" springref="0.3"/>
        <geom type="box" size="0.04 0.05 0.15" pos="0 0 0.15"/>
        <body name="b4" pos="0 0 0.3"><joint name="j4" type="slide" axis="1 0 1" ref="0.1" stiffness="5"/>
          <geom type="cylinder" size="0.03 0.1"/>
          <body name="b5" pos="0.1 0 0" quat="0.9 0.1 0.3 0"><joint name="j5" axis="1 0 0"/>
            <geom type="sphere" size="0.07"/>
            <body name="b6" pos="0 0.1 0"><joint name="j6" axis="0 1 1" pos="0 -0.05 0"/>
              <geom type="ellipsoid" size="0.03 0.06 0.02"/></body></body></body></body></body></body>
</worldbody></mujoco>"""

FLOATING = """<mujoco><worldbody><body name="trunk" pos="0.1 0.2 1" quat="0.9 0.2 0.1 0.3"><freejoint name="root"/>
  <geom type="box" size="0.2 0.1 0.05" pos="0.01 0.02 0.03"/>
  <body name="arm" pos="0.2 0 0"><joint name="ball" type="ball" damping="0.1"/>
    <geom type="capsule" size="0.03 0.1" pos="0 0 0.1"/>
    <body name="hand" pos="0 0 0.2"><joint name="hinge" axis="0 1 0"/>
      <geom type="box" size="0.05 0.02 0.06"/></body></body>
</body></worldbody></mujoco>"""

GIMBAL = """<mujoco><worldbody><body name="cart">
  <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
  <joint name="a" axis="0 0 1" pos="0.1 0 0"/><joint name="b" axis="0 1 0" pos="0 0.05 0.1" damping="0.05"/>
  <geom type="box" size="0.1 0.2 0.05" pos="0.05 0 0"/>
  <body name="pole" pos="0.2 0 0.1"><joint name="p" axis="1 0 0" pos="0 0 -0.05"/>
    <geom type="capsule" size="0.02 0.3" pos="0 0 0.3"/></body>
</body></worldbody></mujoco>"""

LEG = """<body name="hip{k}" pos="{x} {y} 0"><joint name="hip{k}" axis="1 0 0" armature="0.01"/>
  <geom type="capsule" size="0.02 0.05"/>
  <body name="knee{k}" pos="0 0 -0.2"><joint name="knee{k}" axis="0 1 0" damping="0.1"/>
    <geom type="capsule" size="0.02 0.08" pos="0 0 -0.1"/></body></body>"""
QUADRUPED = (
    '<mujoco><worldbody><body name="trunk" pos="0 0 0.5"><freejoint name="root"/>'
    '<geom type="box" size="0.3 0.15 0.05"/>'
    + "".join(LEG.format(k=k, x=(-0.25, 0.25)[k % 2], y=(-0.15, 0.15)[k // 2]) for k in range(4))
    + "</body></worldbody></mujoco>"
)


def write(folder, text, name="robot.xml"):
    path = folder / name
    path.write_text(text)
    if "bar.obj" in text:
        (folder / "meshes").mkdir(exist_ok=True)
        (folder / "meshes" / "bar.obj").write_text(OBJ)
    return path


def load(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.RobotWarning)
        return gs.load_robot(path, **options)


def compiled_model(robot):
    """Returns MuJoCo's model without what gradsim has in another form: contact, limits and dry friction."""
    model = mujoco.MjSpec.from_string(robot.source.xml, assets=robot.source.assets).compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
    return model


def accelerations(robot, model, q, v):
    """Returns MuJoCo's accelerations, and gradsim's at the same state, in MuJoCo's order."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_forward(model, data)
    values = {}
    body = robot.body
    for joint, link in robot.joints.items():
        at, dof = model.joint(joint).qposadr[0], model.joint(joint).dofadr[0]
        path = f"{body.name}.links.{link}.joint"
        kind = body.links[link].joint
        if isinstance(kind, gs.Free):
            values |= {f"{path}.displacement": q[at : at + 3], f"{path}.rotation": np.roll(q[at + 3 : at + 7], -1)}
            values |= {f"{path}.velocity": v[dof : dof + 3], f"{path}.angular_velocity": v[dof + 3 : dof + 6]}
        elif isinstance(kind, gs.Spherical):
            values |= {f"{path}.rotation": np.roll(q[at : at + 4], -1), f"{path}.angular_velocity": v[dof : dof + 3]}
        else:
            values |= {f"{path}.{kind.coordinate}": q[at], f"{path}.rate": v[dof]}
            values |= {f"{path}.low": -1e6, f"{path}.high": 1e6} if kind.low is not None else {}
    scene = gs.Scene([body], gravity=model.opt.gravity).with_values(values)
    dt = 1e-4
    trajectory = gs.simulate(scene, frames=2, fps=1 / dt, substeps=1, integrator=gs.SymplecticEuler())
    speeds = trajectory.states["joint.v"]
    change = ((speeds[1] - speeds[0]) / dt).numpy()
    elements = trajectory[body.name].elements
    found = []
    for name, link in robot.joints.items():
        own = [change[k, 0] if e.kind != "ball" else change[k] for k, e in enumerate(elements) if e.link == link]
        found.append((model.joint(name).dofadr[0], np.hstack(own)))
    return data.qacc, np.concatenate([part for _, part in sorted(found, key=lambda pair: pair[0])])


ROBOTS = {"urdf arm": URDF, "six joints": ARM, "floating": FLOATING, "gimbal": GIMBAL, "quadruped": QUADRUPED}


@pytest.mark.parametrize("text", ROBOTS.values(), ids=ROBOTS)
def test_forward_dynamics_are_those_of_mujoco(text, tmp_path):
    robot = load(write(tmp_path, text), y_up=False)
    model = compiled_model(robot)
    random = np.random.default_rng(0)
    for _ in range(3):
        q = model.qpos0 + random.uniform(-0.5, 0.5, model.nq)
        for joint in range(model.njnt):
            at = model.jnt_qposadr[joint] + (3 if model.jnt_type[joint] == 0 else 0)
            if model.jnt_type[joint] < 2:
                q[at : at + 4] /= np.linalg.norm(q[at : at + 4])
        expected, got = accelerations(robot, model, q, random.normal(size=model.nv))
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_visuals_names_and_unsupported_features_of_a_urdf(tmp_path):
    with pytest.warns(gs.RobotWarning, match="contact of links"):
        robot = gs.load_robot(write(tmp_path, URDF, "arm.urdf"))
    assert robot.joints == {"shoulder": "upper_arm", "elbow": "forearm"}
    assert robot.links["upper-arm"] == "upper_arm"
    upper = robot.body.links["upper_arm"]
    np.testing.assert_allclose(np.asarray(upper.look.color), [0.8, 0.1, 0.1], atol=1e-6)
    np.testing.assert_allclose(np.ptp(upper.mesh.vertices, axis=0), [0.1, 0.08, 0.4], atol=1e-9)
    assert len(robot.body.links["forearm"].mesh.faces) == 4
    scene = gs.Scene([robot.body], camera=gs.Camera(eye=(0, 1, 4), target=(0, 0.6, 0), fov=40))
    trajectory = gs.simulate(scene, frames=2)
    image = gs.render(scene, trajectory, size=(32, 32))
    assert float((image - 1.0).abs().max()) > 0.2
    # the z axis of the file is up
    assert float(trajectory[robot.body.name].link("upper_arm").position[0, 1]) == pytest.approx(0.5)


@pytest.mark.parametrize(("text", "name"), [(URDF, "arm.urdf"), (ARM, "arm.xml")])
def test_fitted_values_are_written_back(text, name, tmp_path):
    robot = load(write(tmp_path, text, name))
    link = list(robot.joints.values())[1]
    joint = f"{robot.body.name}.links.{link}"
    inertia = np.diag([0.04, 0.05, 0.06]) + 0.001
    values = {f"{joint}.joint.damping": 0.77, f"{joint}.mass": 2.5, f"{joint}.center": (0.01, 0.02, 0.03)}
    changed = gs.Scene([robot.body]).with_values({**values, f"{joint}.inertia": inertia})
    robot.save(tmp_path / f"fitted_{name}", changed[robot.body.name])
    again = load(tmp_path / f"fitted_{name}").body.links[link]
    assert float(again.joint.damping) == pytest.approx(0.77)
    assert float(again.mass) == pytest.approx(2.5)
    np.testing.assert_allclose(again.center, (0.01, 0.02, 0.03), atol=1e-9)
    np.testing.assert_allclose(again.inertia, inertia, atol=1e-9)


VISUAL = """<robot name="r"><link name="a"><visual><geometry><mesh filename="{}"/></geometry></visual></link></robot>"""
OUTSIDE = {
    "mesh": VISUAL.format("../secret.obj"),
    "package": VISUAL.format("package://x/../../secret.obj"),
    "include": '<mujoco><include file="../secret.xml"/></mujoco>',
    "asset": '<mujoco><asset><mesh file="../secret.obj"/></asset></mujoco>',
    "asset folder": '<mujoco><compiler meshdir=".."/><asset><mesh file="secret.obj"/></asset></mujoco>',
}


@pytest.mark.parametrize("text", OUTSIDE.values(), ids=OUTSIDE)
def test_files_outside_the_folder_are_refused(text, tmp_path):
    (tmp_path / "secret.obj").write_text(OBJ)
    (tmp_path / "secret.xml").write_text("<mujoco/>")
    folder = tmp_path / "robot"
    folder.mkdir()
    with pytest.raises(gs.InvalidInput, match="outside"):
        gs.load_robot(write(folder, text))


def test_entities_and_endless_includes_are_refused(tmp_path):
    bomb = '<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>'
    with pytest.raises(gs.InvalidInput, match="entities"):
        gs.load_robot(write(tmp_path, bomb))
    with pytest.raises(gs.InvalidInput, match="includes"):
        gs.load_robot(write(tmp_path, '<mujoco><include file="robot.xml"/></mujoco>'))


def test_degenerate_triangles_of_visuals_are_left_out(tmp_path):
    path = write(tmp_path, URDF)
    whole = load(path).body.links["forearm"].mesh
    (tmp_path / "meshes" / "bar.obj").write_text(OBJ + "v 0.1 0 0\nf 1 5 2\nf 2 5 4\n")
    mesh = load(path).body.links["forearm"].mesh
    assert len(mesh.faces) == len(whole.faces) == 4


def test_gradients_reach_a_loaded_robot(tmp_path):
    robot = load(write(tmp_path, ARM))
    path = f"{robot.body.name}.links.b3.joint.stiffness"
    stiffness = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    scene = gs.Scene([robot.body]).with_values({path: stiffness})
    trajectory = gs.simulate(scene, frames=2, fps=20.0, substeps=10, integrator=gs.SymplecticEuler())
    trajectory[robot.body.name].angle("b6")[-1].backward()
    assert abs(float(stiffness.grad)) > 1e-9


@pytest.mark.parametrize("text", [ARM, FLOATING, GIMBAL], ids=["six joints", "floating", "gimbal"])
def test_collision_geometry_stands_where_that_of_mujoco_does(text, tmp_path):
    contact = gs.Contact(ke=3e3)
    robot = load(write(tmp_path, text), collides=True, contact=contact, y_up=False)
    model = compiled_model(robot)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    links = gs.simulate(gs.Scene([robot.body], pairs=False), frames=1)[robot.body.name]
    shapes = [name for name, link in robot.body.links.items() if link.collides]
    assert len(shapes) == model.ngeom
    assert all(robot.body.links[name].contact is contact for name in shapes)
    for geom, name in enumerate(shapes):
        mesh = robot.body.links[name].mesh
        points = links.link(name).points(torch.tensor(mesh.vertices))[0].numpy()
        local = (points - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
        size, kind = model.geom_size[geom], mujoco.mjtGeom(model.geom_type[geom])
        half = {
            mujoco.mjtGeom.mjGEOM_CAPSULE: (size[0], size[0], size[1] + size[0]),
            mujoco.mjtGeom.mjGEOM_CYLINDER: (size[0], size[0], size[1]),
            mujoco.mjtGeom.mjGEOM_SPHERE: (size[0],) * 3,
        }.get(kind, size)
        np.testing.assert_allclose(np.abs(local).max(0), half, rtol=0.02)
