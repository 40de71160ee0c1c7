"""Unknown components of vectors, and unknowns used in several places."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.parameters import Parameters

MESH = gs.meshes.box(0.5)


def cube(**fields) -> gs.Rigid:
    return gs.Rigid("cube", MESH, **({"mass": 1.0} | fields))


def test_an_unknown_component_has_the_path_of_the_component():
    scene = gs.Scene([cube(position=(gs.unknown(0.1), 0.5, 0.0))], ground=gs.Ground(normal=(0.0, 1.0, gs.unknown(0.0))))
    assert list(scene.unknowns) == ["ground.normal[2]", "cube.position[0]"]
    filled = scene.with_values({"cube.position[0]": torch.tensor([1.0, 2.0]).double(), "ground.normal[2]": 0.1})
    assert filled["cube"].position.tolist() == [[1.0, 0.5, 0.0], [2.0, 0.5, 0.0]]
    assert isinstance(filled.ground.normal, np.ndarray)
    assert not filled.unknowns
    (_, unknown, spec) = next(scene.unknown_quantities())
    assert (unknown.shape, spec.shape, spec.unit) == ((), (), "1")


def test_components_of_matrices_and_lists_per_element():
    inertia = ((gs.unknown(1.0), 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    scene = gs.Scene([cube(inertia=inertia)])
    assert list(scene.unknowns) == ["cube.inertia[0][0]"]
    assert scene.with_values({"cube.inertia[0][0]": 1.5})["cube"].inertia[0, 0] == 1.5
    masses = gs.per_element([0.1] * 7 + [gs.unknown(0.2)])
    soft = gs.Scene([gs.Soft("soft", gs.meshes.tet_box((1, 1, 1), 1), mass=masses)])
    assert list(soft.unknowns) == ["soft.mass[7]"]
    filled = soft.with_values({"soft.mass[7]": torch.tensor([0.3, 0.4]).double()})
    assert filled["soft"].mass.values.shape == (2, 8)


def test_the_gradient_goes_through_tensors_among_the_components():
    height = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    body = cube(position=(0.0, height, 0.0))
    body.position.sum().backward()
    assert float(height.grad) == 1.0


def test_a_component_of_a_known_vector_can_be_replaced():
    scene = gs.Scene([cube(position=(1.0, 2.0, 3.0), velocity=torch.zeros(2, 3).double())])
    assert scene.with_values({"cube.position[1]": 5.0})["cube"].position.tolist() == [1.0, 5.0, 3.0]
    assert scene.with_values({"cube.velocity[2]": 4.0})["cube"].velocity.tolist() == [[0.0, 0.0, 4.0]] * 2


def test_scales_and_steps_of_components():
    colors = gs.Look(color=(gs.unknown(0.5, low=0.0, high=1.0), 0.5, 0.5))
    body = cube(position=(gs.unknown(0.0), 4.0, 0.0), velocity=(gs.unknown(0.0), 0.0, 0.0), look=colors)
    parameters = Parameters(gs.Scene([body]))
    assert parameters.names == ["cube.position[0]", "cube.velocity[0]", "cube.look.color[0]"]
    assert [unknown.scale for unknown in parameters.unknowns] == ["linear", "linear", "logit"]
    assert [float(unknown.unit_step) for unknown in parameters.unknowns[:2]] == [4.0, 1.0]


def test_a_scene_with_unknown_components_cannot_be_simulated():
    with pytest.raises(gs.InvalidInput, match=r"cube\.position\[1\] = unknown\(0\.5\): is unknown"):
        gs.simulate(gs.Scene([cube(position=(0.0, gs.unknown(0.5), 0.0))]), frames=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cube(position=(gs.unknown((1.0, 2.0)), 0.0, 0.0)), "cube.position[0] = unknown(array"),
        (lambda: cube(position=(gs.unknown(1.0), "up", 0.0)), "cube.position[1] = 'up'"),
        (lambda: cube(position=(gs.unknown(1.0), (0.0, 1.0), 0.0)), "cube.position = a list of parts"),
        (lambda: cube(position=(gs.unknown(1.0), 0.0)), "must be 3 numbers"),
        (lambda: cube(mass=[gs.unknown(1.0)]), "must be a number [kg]"),
        (lambda: gs.Checker(colors=((gs.unknown(2.0), 0.0, 0.0), (0, 0, 0))), "colours lie in [0, 1]"),
        (
            lambda: cube(position=(gs.unknown(1.0, prior=gs.LogNormal(1.0, 0.1)), 0.0, 0.0)),
            "cube.position[0]'s prior",
        ),
        (
            lambda: cube(position=(torch.zeros(2), torch.zeros(3), 0.0)),
            "components of shapes (2,), (3,): their batches must broadcast",
        ),
        (lambda: cube(position=(torch.zeros(2), torch.zeros(2).double(), 0.0)), "in one dtype"),
    ],
)
def test_invalid_components(make, message):
    with pytest.raises(gs.InvalidInput) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cube.position[3]": 1.0}, "cube.position has shape (3,)"),
        ({"cube.position[0][1]": 1.0}, "cube.position has shape (3,)"),
        ({"cube.mass[0]": 1.0}, "cube.mass has shape ()"),
        ({"cube.positin[0]": 1.0}, "did you mean 'cube.position'"),
        ({"cube.position": (0.0, 0.0, 0.0), "cube.position[0]": 1.0}, "is given twice"),
        ({"cube.velocity[0]": 1.0}, "is part of one unknown: give all components, cube.velocity"),
    ],
)
def test_invalid_component_paths(values, message):
    scene = gs.Scene([cube(position=(gs.unknown(1.0), 0.0, 0.0), velocity=gs.unknown((0.0, 0.0, 0.0)))])
    with pytest.raises(gs.InvalidInput) as error:
        scene.with_values(values)
    assert message in str(error.value)


def test_one_object_in_several_places_is_one_unknown():
    mass, speed = gs.unknown(2.0, low=1.0, high=10.0), gs.unknown(0.5)
    bodies = [
        gs.Rigid("first", MESH, mass=mass, velocity=(speed, 0.0, speed)),
        gs.Rigid("second", MESH, mass=mass, velocity=(0.0, speed, 0.0)),
    ]
    scene = gs.Scene(bodies)
    assert list(scene.unknowns) == ["first.mass", "first.velocity[0]"]
    filled = scene.with_values({"first.mass": 3.0, "first.velocity[0]": torch.tensor([1.0, 2.0]).double()})
    assert filled["second"].mass == 3.0
    assert filled["first"].velocity.tolist() == [[1.0, 0.0, 1.0], [2.0, 0.0, 2.0]]
    assert filled["second"].velocity.tolist() == [[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]]
    other = scene.with_values({"second.mass": 4.0})
    assert (float(other["first"].mass), float(other["second"].mass)) == (4.0, 4.0)


def test_a_tied_unknown_has_the_narrowest_range_and_one_unit():
    tied = gs.unknown(0.5)
    scene = gs.Scene([cube(mass=1.0, center=(tied, 0.0, 0.0))], ground=gs.Ground(offset=tied, delta=tied))
    ((path, _, spec),) = scene.unknown_quantities()
    assert (path, spec.low) == ("ground.delta", 0.0)
    with pytest.raises(gs.InvalidInput, match=r"cube\.mass .*is one unknown with ground\.offset \[m\]"):
        Parameters(gs.Scene([cube(mass=tied)], ground=gs.Ground(offset=tied)))


def test_no_values_leave_a_scene_as_it_is():
    scene = gs.Scene([gs.Rigid("ball", gs.meshes.icosphere(0.1, 1), mass=2.0)])
    assert float(scene.with_values({})["ball"].mass) == 2.0
