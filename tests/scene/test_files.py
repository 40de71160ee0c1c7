"""Scene files: round trips to the last bit, errors with line numbers, and the bundled scenes."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.files.document import parse_yaml
from gradsim.scene.files.load import bundled_scenes

PAGE = Path(__file__).parents[2] / "docs" / "scene-files.md"
DOCUMENTED = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

RNG = np.random.default_rng(5)
BOX = gs.meshes.box(0.5)
BLOCK = gs.meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))
SHEET = gs.meshes.grid(1.0, 2)

BASE = """\
bodies:
  - rigid:
      name: cube
      mesh: {box: 0.5}
      density: 500
ground: {mu: 0.3}
"""


def assert_same(one, other, path="scene"):
    """Asserts that two values are equal to the last bit, with tensors converted to arrays."""
    if isinstance(one, torch.Tensor):
        one = one.detach().numpy()
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, path
        assert np.array_equal(one, other), path
        return
    assert type(one) is type(other), path
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            if field.name != "builder_call":
                assert_same(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
    elif isinstance(one, Mapping):
        assert list(one) == list(other), path
        for name in one:
            assert_same(one[name], other[name], f"{path}[{name!r}]")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        for k, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{path}[{k}]")
    else:
        assert one == other, path


def round_trip(scene, folder, time=None):
    """Saves and loads a scene, asserts that nothing has changed, and returns the text of the file."""
    scene.save(folder / "scene.yaml", time=time)
    loaded = gs.load_scene_file(folder / "scene.yaml")
    assert_same(scene, loaded.scene)
    assert_same(time or gs.Time(), loaded.time)
    return (folder / "scene.yaml").read_text()


def soft():
    nodes, tets = len(BLOCK.vertices), len(BLOCK.tets)
    return gs.Soft(
        "block",
        BLOCK,
        mass=gs.per_element(gs.unknown(0.1, low=0.01, high=1.0, shape=(nodes,))),
        material=gs.NeoHookean(
            gs.per_element(RNG.random(tets) + 1e3), gs.unknown(1 / 3, low=0.0), torch.tensor(0.1).double()
        ),
        vertices=BLOCK.vertices + 0.01 * RNG.random((nodes, 3)),
        position=torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True),
        rotation=(0.1, 0.2, 0.3, 0.9),
        velocity=gs.per_element(RNG.random((nodes, 3))),
        pinned=gs.Region(high=(-0.19, None, None)),
        actuation=gs.Signal(gs.per_element(RNG.random((4, tets)))),
        force=gs.Signal(RNG.random((3, 3))),
        contact=gs.Contact(ke=1e3, delta=0.0),
        look=gs.Look(vertex_colors=RNG.random((nodes, 3)), smooth=0.0, two_sided=True),
    )


def cloth():
    return gs.Cloth(
        "sheet",
        SHEET,
        density=gs.unknown(0.2, low=0.0),
        material=gs.Membrane.from_young(1e4, 0.3, 1e-3),
        bending=gs.Bending(1e-5, 1e-7),
        drag=0.1,
        lift=gs.per_element(RNG.random(len(SHEET.faces))),
        folding=gs.Signal([0.0, 0.1]),
        velocity=gs.unknown((1.0, 0.0, 0.0), low=-5.0, high=(5.0, 6.0, 7.0)),
        look=gs.Look(texture=RNG.random((5, 6, 3)), lit=False),
    )


def rigid():
    return gs.Rigid(
        "cube",
        BOX,
        mass=gs.unknown(3.0, low=1.0, high=9.0),
        inertia=np.diag([0.1, 0.2, 0.25]),
        center=(0.01, 0.0, 0.0),
        angular_velocity=(0.0, 1 / 7, 0.0),
        contact={"ground": gs.Contact(mu=0.1), "ball": gs.Contact()},
        pushes=[gs.Push(impulse=(0.2, 0.0, 0.0), start=0.05), gs.Push(force=(0, 4, 0), point=(0, 0.1, 0), end=0.2)],
        face_samples=True,
        look=None,
    )


def springs():
    points, edges = gs.meshes.chain(1.0, 30)
    return gs.Springs("chain", points, edges, stiffness=gs.per_element(RNG.random(30)), pinned=[0, 30], thickness=0.01)


BODIES = {
    "soft": soft,
    "cloth": cloth,
    "rigid": rigid,
    "springs": springs,
    "points": lambda: gs.Springs("dust", RNG.random((4, 3)), np.zeros((0, 2), dtype=int)),
    "pendulum": lambda: gs.Pendulum("clock", length=gs.unknown(0.994), look=gs.Look(specular=0.5, shininess=7.0)),
    "double_pendulum": lambda: gs.DoublePendulum(
        "double", lengths=gs.unknown((1.0, 0.7), low=0.1), rates=(0.1, 1e-300)
    ),
    "smoke": lambda: gs.Smoke("smoke", (8, 9), density=RNG.random((8, 9)), boundary=gs.Periodic(), length=2.0),
    "gear": lambda: gs.Soft("gear", gs.meshes.tet_gear(), density=1.0, material=gs.NeoHookean(1e3, 1e3)),
    "gear with arguments": lambda: gs.Soft(
        "gear", gs.meshes.tet_gear(teeth=5), density=1.0, material=gs.NeoHookean(1e3, 1e3)
    ),
    "batch": lambda: gs.Pendulum("many", length=torch.tensor([0.5, 1.0], dtype=torch.float64)),
}


def shapes():
    return {
        "ball": gs.StaticSphere(radius=0.3, position=(0.5, 0.0, 0.0), look=gs.Look(color=(0.1, 0.2, 0.3))),
        "rail": gs.StaticCapsule(ke=1e3, radius=0.05, start=(-1, 0.2, 0.5), end=(1, 0.2, 0.5)),
        "step": gs.StaticBox(mu=0.8, size=(0.4, 0.1, 0.4), rotation=(0.3, 0.2, 0.1, 0.7), look=None),
        "1e5": gs.Ground(normal=(-1.0, 0.0, 0.0), offset=gs.unknown(-2.0)),  # a name that looks like a number
    }


@pytest.mark.parametrize("name", BODIES)
def test_round_trip_of_bodies(name, tmp_path):
    round_trip(gs.Scene([BODIES[name]()], gs.Ground(mu=0.3, look=gs.Checker()), shapes=shapes()), tmp_path)


def test_round_trip_of_camera_lights_and_background(tmp_path):
    scene = gs.Scene(
        [gs.Pendulum("clock")],
        gravity=gs.unknown((0.0, -9.0, 0.0), low=-20.0, high=20.0),
        camera=gs.Camera(pose=np.eye(4), fx=gs.unknown(500.0), fy=500.0, cx=32.0, cy=24.0, resolution=(48, 64)),
        lights=[gs.AmbientLight(0.1), gs.DirectionalLight((0, -1, 0)), gs.PointLight((0, 3, 0), color=(1, 0.5, 0))],
        background=RNG.random((6, 8, 3)),
    )
    round_trip(scene, tmp_path, gs.Time(7, 24.0, 3, gs.SymplecticEuler()))
    unlit = dataclasses.replace(scene, camera=gs.Camera(eye=(0, 1, gs.unknown(5.0).guess), target=(0, 0, 0)), lights=())
    assert "lights: []" in round_trip(unlit, tmp_path)


MESHES = {
    "box": gs.meshes.box,
    "sphere": lambda size: gs.meshes.sphere(size, segments=8),
    "icosphere": lambda size: gs.meshes.icosphere(size, 1),
    "cylinder": lambda size: gs.meshes.cylinder(size, height=np.float32(0.3)),
    "cone": lambda size: gs.meshes.cone(size, 1),
    "capsule": lambda size: gs.meshes.capsule(size, 1, 8),
    "torus": lambda size: gs.meshes.torus(2 * size, size, 4, 5),
}


@pytest.mark.parametrize("name", MESHES)
def test_mesh_builders_are_saved_by_name(name, tmp_path):
    mesh = MESHES[name](0.1 + 0.2)
    text = round_trip(gs.Scene([gs.Rigid("it", mesh, density=1.0)]), tmp_path)
    assert f"{name}:" in text
    assert "0.30000000000000004" in text
    assert not (tmp_path / "scene.npz").exists()


def test_other_meshes_are_saved_as_arrays(tmp_path):
    moved = dataclasses.replace(BOX, vertices=BOX.vertices + 1.0)
    assert "tri_mesh:" in round_trip(gs.Scene([gs.Rigid("it", moved, density=1.0)]), tmp_path)
    large = gs.meshes.icosphere(0.1, 2)
    text = round_trip(gs.Scene([gs.Rigid("it", gs.TriMesh(large.vertices, large.faces), density=1.0)]), tmp_path)
    assert "file: scene.npz" in text
    assert sorted(file.name for file in tmp_path.iterdir()) == ["scene.npz", "scene.yaml"]


def test_files_are_relative_to_the_scene_file(tmp_path, monkeypatch):
    gs.meshes.save_mesh(BOX, tmp_path / "box.obj")
    np.save(tmp_path / "mass.npy", np.arange(1.0, 9.0))
    text = BASE.replace("{box: 0.5}", "{outward: {file: box.obj}}").replace(
        "density: 500", "mass: {per_element: {file: mass.npy}}"
    )
    (tmp_path / "scene.yaml").write_text(text)
    monkeypatch.chdir("/")
    cube = gs.load_scene(tmp_path / "scene.yaml")["cube"]
    assert np.array_equal(cube.mesh.vertices, BOX.vertices)
    assert np.array_equal(cube.mass.values, np.arange(1.0, 9.0))


@pytest.mark.parametrize("block", DOCUMENTED, ids=lambda block: block.partition(":")[0])
def test_documented_examples(block, tmp_path):
    """Blocks without bodies refer to those of the page's block with a die and a rope."""
    gs.meshes.save_mesh(BOX, tmp_path / "die.obj")
    bodies = "" if "bodies:" in block else next(other for other in DOCUMENTED if "name: rope" in other)
    (tmp_path / "scene.yaml").write_text(bodies + block)
    file = gs.load_scene_file(tmp_path / "scene.yaml")
    round_trip(file.scene, tmp_path, file.time)


def test_plain_scalars_follow_yaml_1_2():
    document = parse_yaml("{a: 1e5, b: -2.5E-3, c: on, d: 010, e: .5, f: true, g: ~, h: 1:30, i: 3., j: '7'}")
    assert document.data == {
        "a": 1e5, "b": -2.5e-3, "c": "on", "d": 10, "e": 0.5, "f": True, "g": None, "h": "1:30", "i": 3.0, "j": "7",
    }  # fmt: skip


def test_anchors_and_merges(tmp_path):
    text = BASE.replace("density: 500", "density: 500\n      look: &red {color: [1, 0, 0]}")
    (tmp_path / "scene.yaml").write_text(text + "shapes:\n  ball: {sphere: {look: {<<: *red, specular: 0.5}}}\n")
    look = gs.load_scene(tmp_path / "scene.yaml").shapes["ball"].look
    assert (look.color.tolist(), float(look.specular)) == ([1.0, 0.0, 0.0], 0.5)


def after_density(text):
    return ("density: 500", f"density: 500\n      {text}")


# A replacement in the base file; then line, end of the name and part of the remedy in the error.
MISTAKES = {
    "section": (("ground:", "grund:"), 6, "grund", "did you mean 'ground'"),
    "field": (("density", "densty"), 5, "cube.densty", "did you mean 'density'"),
    "type": (("rigid", "rigd"), 2, "bodies[0].rigd", "did you mean 'rigid'"),
    "two types": (after_density("\n    soft: {}"), 2, "bodies[0]", "one key"),
    "indentation": (("      ", "    "), 2, "rigid", "indent the fields"),
    "no name": (("name: cube", "rotation: [0, 0, 0, 1]"), 2, "name", "is required for rigid"),
    "name with a space": (("name: cube", "name: my cube"), 3, "name", "identifier"),
    "number for a name": (("name: cube", "name: 5"), 3, "name", "string"),
    "duplicate name": (("ground:", "  - pendulum: {name: cube}\nground:"), 6, "cube.name", "name of its own"),
    "text for a number": (("500", "heavy"), 5, "cube.density", "must be a number"),
    "bool for a number": (("500", "true"), 5, "cube.density", "must be a number"),
    "rows of different length": (("500", "[1, [2, 3]]"), 5, "cube.density", "same length"),
    "infinite": (("500", ".inf"), 5, "cube.density", "finite"),
    "invalid number": (("500", "!!float x"), 5, "text", "is not a number"),
    "array file without a name": (("500", "{file: 3}"), 5, "cube.density.file", "name of a .npy"),
    "region": (
        ("density: 500", "mass: 1\n  - soft:\n      name: beam\n      mesh: {tet_box: {size: 1, cells: 1}}\n"
         "      density: 1\n      pinned: {low: [0]}"), 10, "beam.pinned.low", "three numbers",
    ),
    "range": (("500", "-5"), 5, "cube.density", "must be > 0 [kg/m^3]"),
    "guess outside": (("500", "{unknown: 5, low: 6, high: 7}"), 5, "cube.density.guess", "between low and high"),
    "bounds": (("500", "{unknown: 5, low: 9, high: 7}"), 5, "cube.density.low", "below high"),
    "bound's name": (("500", "{unknown: 5, lo: 1}"), 5, "cube.density.lo", "did you mean 'low'"),
    "wrapper": (("500", "{unknwon: 5}"), 5, "cube.density.unknwon", "did you mean 'unknown'"),
    "number of values per element": (("density: 500", "mass: {per_element: [1, 2]}"), 5, "cube.mass", "8 vert"),
    "missing array file": (("500", "{file: no.npy}"), 5, "cube.density.file", "no such file"),
    "format of an array file": (("500", "{file: no.csv}"), 5, "cube.density.file", ".npy"),
    "mesh function": (("box", "bax"), 4, "cube.mesh.bax", "did you mean 'box'"),
    "mesh argument": (("{box: 0.5}", "{sphere: {radios: 1}}"), 4, "cube.mesh.sphere.radios", "did you mean 'radius'"),
    "mesh size": (("0.5", "-1"), 4, "cube.mesh.box.size", "above 0"),
    "missing mesh file": (("{box: 0.5}", "{file: no.obj}"), 4, "cube.mesh.file", "existing mesh file"),
    "type of mesh": (("rigid", "soft"), 4, "cube.mesh", "TetMesh"),
    "both": (after_density("mass: 3"), 5, "cube.density/mass", "exactly one"),
    "neither": (("density: 500", "look: null"), 2, "cube.density/mass", "exactly one"),
    "duplicate key": (after_density("density: 3"), 6, "text", "twice"),
    "contact with no such shape": (after_density("contact: {wall: {mu: 1}}"), 6, "cube.contact", "the scene's shapes"),
    "contact field": (after_density("contact: {kee: 1}"), 6, "cube.contact.kee", "did you mean 'ke'"),
    "colour": (after_density("look:\n        color: [2, 0, 0]"), 7, "cube.look.color", "[0, 1]"),
    "push": (after_density("pushes:\n        - {start: 1}\n"), 7, "cube.pushes[0].force/impulse", "exactly one"),
    "pushes": (after_density("pushes: {force: [1, 2, 3]}"), 6, "cube.pushes", "must be a list"),
    "shape": (("ground:", "shapes:\n  a: {sphere: {radius: -1}}\nground:"), 7, "a.radius", "> 0"),
    "light": (("ground:", "lights:\n  - spot: {}\nground:"), 7, "lights[0].spot", "ambient"),
    "light field": (("ground:", "lights:\n  - point: {}\nground:"), 7, "lights[0].position", "is required"),
    "camera": (("ground:", "camera:\n  eye: [0, 0, 1]\nground:"), 7, "camera.eye/target", "give eye and target"),
    "frames": (("ground:", "time:\n  frames: 2.5\nground:"), 7, "time.frames", "integer"),
    "integrator": (("ground:", "time: {integrator: euler}\nground:"), 6, "time.integrator", "midpoint"),
    "bracket": (("{mu: 0.3}", "{mu: 0.3"), 7, "text", "bracket"),
    "tab": (("  - rigid", "\t- rigid"), 2, "text", "spaces"),
    "a list": ((BASE, "- 1\n"), 1, "file", "bodies, ground"),
    "no bodies": ((BASE, "ground: {}\n"), 1, "bodies", "is required"),
    "empty": ((BASE, "# nothing\n"), None, "text", "needs at least 'bodies:'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_have_the_line_of_the_mistake(name, tmp_path):
    (old, new), line, path, remedy = MISTAKES[name]
    assert old in BASE
    file = tmp_path / "scene.yaml"
    file.write_text(BASE.replace(old, new))
    with pytest.raises(gs.SceneFileError) as caught:
        gs.load_scene(file)
    error = caught.value
    assert (error.line, error.file) == (line, str(file))
    assert error.name.endswith(path)
    assert remedy in error.valid
    assert str(error).startswith(str(file) if line is None else f"{file}, line {line}: {error.name} = ")
    assert "\n" not in str(error)


def test_youngs_modulus_may_be_unknown_but_not_given_with_mu(tmp_path):
    text = (
        "bodies:\n  - soft:\n      name: beam\n      mesh: {tet_box: {size: 1, cells: 1}}\n      density: 1\n"
        "      material: {young: {unknown: 1e5}, poisson: 0.3}\n"
    )
    (tmp_path / "scene.yaml").write_text(text)
    assert list(gs.load_scene(tmp_path / "scene.yaml").unknowns) == ["beam.material.young"]
    (tmp_path / "scene.yaml").write_text(text.replace("poisson: 0.3", "poisson: 0.3, mu: 1e4"))
    with pytest.raises(gs.SceneFileError, match="line 6: beam.material.mu"):
        gs.load_scene(tmp_path / "scene.yaml")


def test_errors_of_reading_and_writing(tmp_path):
    with pytest.raises(gs.SceneFileError, match="did you mean 'bouncing_cube'"):
        gs.load_scene("bouncing_cub")
    with pytest.raises(gs.SceneFileError, match="missing: give an existing YAML file"):
        gs.load_scene(tmp_path / "bouncing_cube")
    with pytest.raises(gs.SceneFileError, match="a folder"):
        gs.load_scene(tmp_path)
    (tmp_path / "scene.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(gs.SceneFileError, match="UTF-8"):
        gs.load_scene(tmp_path / "scene.yaml")
    scene = gs.Scene([gs.Pendulum("clock")])
    with pytest.raises(gs.SceneFileError, match="must end in .yaml"):
        scene.save(tmp_path / "scene.txt")
    with pytest.raises(gs.SceneFileError, match="create its folder"):
        scene.save(tmp_path / "nowhere" / "scene.yaml")


BUNDLED = {
    "bouncing_ball": {"ball.velocity", "ground.restitution"},
    "bouncing_cube": {"cube.mass", "ground.ke", "ground.kd", "ground.kf", "ground.mu"},
    "double_pendulum": {"pendulum.lengths"},
    "flying_cloth": {"cloth.velocity"},
    "hanging_beam": {"beam.material.mu", "beam.material.lam"},
    "thrown_mass": {"stone.mass"},
}


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_scenes(name, tmp_path):
    assert bundled_scenes() == list(BUNDLED)
    file = gs.load_scene_file(name)
    assert set(file.scene.unknowns) == BUNDLED[name]
    round_trip(file.scene, tmp_path, file.time)
    scene = file.scene.with_values({path: unknown.guess for path, unknown in file.scene.unknowns.items()})
    assert not scene.unknowns
    time = file.time
    trajectory = gs.simulate(
        scene, frames=time.frames, fps=time.fps, substeps=time.substeps, integrator=time.integrator
    )
    chosen = [0, time.frames // 2, time.frames - 1]
    video = gs.render(scene, trajectory, (32, 32), frames=chosen)
    assert ((video[0] - video[1:]).abs().amax((1, 2, 3)) > 0.1).all()  # the body moves
    alone = gs.render(dataclasses.replace(scene, ground=None), trajectory, (32, 32), frames=chosen, alpha=True)
    coverage = alone[..., 3]
    assert (coverage.sum((1, 2)) > 2.0).all()  # and is visible


def test_the_schema_has_every_section_and_unit():
    schema = gs.scene_schema()
    assert set(schema["properties"]) == {f.name for f in dataclasses.fields(gs.Scene)} | {"time"}
    rigid_fields = schema["$defs"]["rigid"]["properties"]
    assert set(rigid_fields) == {f.name for f in dataclasses.fields(gs.Rigid)}
    assert rigid_fields["position"]["default"] == [0.0, 0.0, 0.0]
    assert "[kg/m^3]" in str(rigid_fields["density"])
