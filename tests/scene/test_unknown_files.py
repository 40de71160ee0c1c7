"""Unknowns in scene files: components, priors, options and unknowns used in several places."""

import json

import numpy as np
import pytest

import gradsim as gs

MESH = gs.meshes.box(0.5)


def round_trip(scene: gs.Scene, folder) -> gs.Scene:
    scene.save(folder / "scene.yaml")
    return gs.load_scene(folder / "scene.yaml")


def test_options_and_components_of_unknowns(tmp_path):
    body = gs.Rigid(
        "cube",
        MESH,
        mass=gs.unknown(2.0, low=1.0, prior=gs.LogNormal(2.5, 0.2), per_trial=True),
        position=(gs.unknown(0.1, varies=True), 0.5, gs.unknown(0.0, prior=gs.Normal(0.01, 0.02))),
        velocity=gs.unknown((1.0, 2.0, 3.0), prior=gs.Normal((1.0, 2.0, 2.0), 0.5)),
    )
    loaded = round_trip(gs.Scene([body]), tmp_path).unknowns
    assert list(loaded) == ["cube.mass", "cube.position[0]", "cube.position[2]", "cube.velocity"]
    mass, x, z, velocity = loaded.values()
    assert repr(mass) == "unknown(2, low=1, prior=LogNormal(2.5, 0.2), per_trial=True)"
    assert repr(x) == "unknown(0.1, varies=True)"
    assert repr(z) == "unknown(0, prior=Normal(0.01, 0.02))"
    assert np.array_equal(velocity.prior.mean, (1.0, 2.0, 2.0))
    assert float(velocity.prior.sd) == 0.5


def test_an_unknown_used_in_several_places_is_an_alias(tmp_path):
    mass = gs.unknown(2.0, low=1.0)
    bodies = [gs.Rigid(name, MESH, mass=mass, position=(gs.unknown(0.0), 0.0, 0.0)) for name in ("first", "second")]
    loaded = round_trip(gs.Scene(bodies), tmp_path)
    assert "mass: *unknown1" in (tmp_path / "scene.yaml").read_text()
    assert list(loaded.unknowns) == ["first.mass", "first.position[0]", "second.position[0]"]
    assert loaded["first"].mass is loaded["second"].mass
    assert list(round_trip(loaded, tmp_path).unknowns) == list(loaded.unknowns)


def test_anchors_written_by_hand(tmp_path):
    (tmp_path / "scene.yaml").write_text(
        """bodies:
  - rigid: {name: first, mesh: {box: 0.5}, mass: &m {unknown: 2.0, prior: {normal: {mean: 2.0, sd: 0.1}}}}
  - rigid: {name: second, mesh: {box: 0.5}, mass: *m, velocity: [0, {unknown: 1.0}, 0]}
"""
    )
    scene = gs.load_scene(tmp_path / "scene.yaml")
    assert list(scene.unknowns) == ["first.mass", "second.velocity[1]"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("position: [0, {unknown: up}, 0]", "line 2: cube.position[1] = 'up'"),
        ("position: [0, {unknown: 1.0, low: 2.0}, 0]", "cube.position[1].guess = 1: must lie between low and high"),
        ("position: [0, {unkown: 1.0}, 0]", "cube.position[1] = {'unkown': 1.0}: a component is"),
        ("position: [0, {unknown: [1.0, 2.0]}, 0]", "cube.position[1] = unknown(array of shape (2,))"),
        ("velocity: {unknown: [0, 0, 0], prior: 2.0}", "cube.velocity.prior = 2.0: must be {normal:"),
        ("velocity: {unknown: [0, 0, 0], prior: {normal: {mean: 1.0}}}", "normal needs mean and sd"),
        ("velocity: {unknown: [0, 0, 0], prior: {normal: {mean: 1.0, sd: -1.0}}}", "sd = -1: must be > 0"),
        ("velocity: {unknown: [0, 0, 0], per_trial: 3}", "per_trial = 3: must be true or false"),
        ("velocity: {unknown: [0, 0, 0], varied: true}", "did you mean 'varies'"),
    ],
)
def test_errors_name_the_component_and_the_line(fields, message, tmp_path):
    (tmp_path / "scene.yaml").write_text(
        f"bodies:\n  - rigid: {{name: cube, mesh: {{box: 0.5}}, mass: 1.0, {fields}}}\n"
    )
    with pytest.raises(gs.SceneFileError) as error:
        gs.load_scene(tmp_path / "scene.yaml")
    assert message in str(error.value)


def test_the_schema_describes_unknown_components():
    text = json.dumps(gs.scene_schema())
    assert "{unknown: guess, low: ..., high: ..., prior: ...}, also for a component" in text
