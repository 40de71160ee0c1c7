"""Moving surfaces have the vertices, faces and colours that the renderer draws."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.simulate.simulate import initial_trajectory
from gradsim.view.surfaces import moving_surfaces


def scene_of_kinds() -> gs.Scene:
    """A ground, a static shape, a textured box, a coloured ball and a sheet of cloth."""
    texture = np.random.default_rng(0).random((4, 6, 3))
    box = gs.Rigid("box", gs.meshes.box(0.4), mass=1.0, position=(0.0, 0.8, 0.0), look=gs.Look(texture=texture))
    ball = gs.Ball("ball", radius=0.2, mass=1.0, position=(1.0, 0.8, 0.0), look=gs.Look(color=(0.2, 0.4, 0.9)))
    mesh = gs.meshes.grid(0.5, 2)
    colors = np.linspace(0.0, 1.0, 9)[:, None].repeat(3, 1)
    cloth = gs.Cloth("cloth", mesh, mass=0.1, position=(-1.0, 0.8, 0.0), look=gs.Look(vertex_colors=colors))
    post = gs.StaticBox(position=(0.0, 0.2, -1.0), size=(0.2, 0.4, 0.2))
    return gs.Scene([box, ball, cloth], ground=gs.Ground(look=gs.Checker(tile=0.5, size=4.0)), shapes={"post": post})


@pytest.fixture(scope="module")
def surfaces():
    scene = scene_of_kinds()
    return {surface.name: surface for surface in moving_surfaces(scene, initial_trajectory(scene))}


def test_every_visible_surface_is_there(surfaces):
    assert list(surfaces) == ["ground", "post", "box", "ball", "cloth"]
    assert [name for name, surface in surfaces.items() if surface.static] == ["ground", "post"]


def test_rows_give_the_triangles_of_the_mesh(surfaces):
    scene = scene_of_kinds()
    for name in ("box", "cloth"):
        surface, mesh = surfaces[name], scene[name].mesh
        corners = surface.frame(0)[surface.vertices][surface.faces]
        expected = mesh.vertices[mesh.faces] + np.asarray(scene[name].position)
        assert np.allclose(corners, expected, atol=1e-12)


def test_colors_follow_vertices(surfaces):
    cloth = surfaces["cloth"]
    assert np.allclose(cloth.colors, np.linspace(0.0, 1.0, 9)[cloth.vertices][:, None])
    assert np.allclose(surfaces["ball"].colors, (0.2, 0.4, 0.9))


def test_ground_is_one_rectangle_with_a_texture_of_tiles(surfaces):
    ground = surfaces["ground"]
    assert len(ground.faces) == 2
    span = np.ptp(ground.frame(0), axis=0)
    assert np.allclose(span, (4.0, 0.0, 4.0))
    assert np.allclose(ground.uv.max(0), 4.0)  # eight tiles, two in the texture
    bottom_left, beside = ground.texture[-1, 0], ground.texture[-1, -1]
    first, second = np.asarray(gs.Checker().colors)
    assert np.allclose(bottom_left, first)
    assert np.allclose(beside, second)


def test_worlds_of_a_batch():
    position = torch.tensor([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0]], dtype=torch.float64)
    scene = gs.Scene([gs.Rigid("box", gs.meshes.box(0.4), mass=1.0, position=position)])
    trajectory = initial_trajectory(scene)
    centers = [moving_surfaces(scene, trajectory, world)[0].centers[0] for world in range(2)]
    assert np.allclose(centers, position.numpy())
    with pytest.raises(gs.errors.OutOfRange, match="2 worlds"):
        moving_surfaces(scene, trajectory, 2)


def test_initial_trajectory_is_the_first_frame_of_a_simulation():
    scene = gs.Scene([gs.Pendulum("p", length=0.7, angle=0.5), gs.Rigid("box", gs.meshes.box(0.4), mass=1.0)])
    simulated, initial = gs.simulate(scene, frames=2, substeps=4), initial_trajectory(scene)
    assert torch.equal(simulated[:1].vertices, initial.vertices)
