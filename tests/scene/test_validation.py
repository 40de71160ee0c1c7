"""Invalid input raises a specific error that names the quantity, its value and what is valid."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import (
    DegenerateElement,
    InvalidInput,
    InvertedElement,
    MixedDevices,
    MixedDtypes,
    NotFinite,
    OutOfRange,
    UnknownName,
    WrongShape,
    WrongType,
)
from gradsim.scene.quantity import quantities_of
from gradsim.scene.validation import validated_array

BOX = gs.meshes.tet_box(0.2, 1)
SHEET = gs.meshes.grid(0.2, 2)
NODES, TETS = len(BOX.vertices), len(BOX.tets)


def soft(**options):
    return gs.Soft(**{"name": "box", "mesh": BOX, "density": 100.0, **options})


def springs(**options):
    return gs.Springs(**{"name": "net", "points": SHEET.vertices, "edges": SHEET.edges, **options})


def simulate(*bodies, **options):
    return gs.simulate(gs.Scene(bodies), frames=1, **options)


CASES = {
    "inverted element": (
        lambda: gs.TetMesh(BOX.vertices, BOX.tets[:, [1, 0, 2, 3]]),
        InvertedElement,
        r"mesh\.tets\[0\]",
    ),
    "flat element": (
        lambda: gs.TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2, 3]]),
        DegenerateElement,
        r"mesh\.tets\[0\]",
    ),
    "spring without length": (
        lambda: springs(points=np.zeros((2, 3)), edges=[[0, 1]]),
        DegenerateElement,
        r"net\.edges\[0\]",
    ),
    "negative mass": (lambda: soft(density=None, mass=-1.0), OutOfRange, r"box\.mass = -1: must be > 0"),
    "negative mass of one node": (
        lambda: soft(density=None, mass=gs.per_element([1.0] * (NODES - 1) + [-2.0])),
        OutOfRange,
        r"box\.mass = .* reaching -2: must be > 0",
    ),
    "zero density": (lambda: soft(density=0.0), OutOfRange, r"box\.density = 0: must be > 0 \[kg/m\^3\]"),
    "negative stiffness": (lambda: springs(stiffness=-5.0), OutOfRange, r"net\.stiffness = -5"),
    "negative modulus": (lambda: gs.NeoHookean(mu=-1.0), OutOfRange, r"NeoHookean\.mu = -1"),
    "negative friction": (lambda: gs.Ground(mu=-0.1), OutOfRange, r"Ground\.mu = -0\.1: must be >= 0"),
    "Poisson's ratio of 0.5": (
        lambda: gs.NeoHookean.from_young(1e5, 0.5),
        OutOfRange,
        r"NeoHookean\.poisson = 0\.5: must be < 0\.5",
    ),
    "NaN": (lambda: soft(velocity=(0.0, float("nan"), 0.0)), NotFinite, r"box\.velocity"),
    "infinite tensor": (
        lambda: gs.NeoHookean(mu=torch.tensor([1.0, float("inf")])),
        NotFinite,
        r"NeoHookean\.mu = array of shape \(2,\): 1 of its values",
    ),
    "two components": (lambda: soft(position=(0.0, 1.0)), WrongShape, r"box\.position = shape \(2,\).*\(3\)"),
    "wrong count": (
        lambda: soft(material=gs.NeoHookean(mu=gs.per_element(np.ones(TETS + 1)))),
        WrongShape,
        rf"box\.material\.mu = .*its body has {TETS} tets",
    ),
    "wrong vertices": (lambda: soft(vertices=np.zeros((3, 3))), WrongShape, rf"box\.vertices = .*{NODES}, 3"),
    "wrong edges": (lambda: springs(edges=[[0, 1, 2]]), WrongShape, r"net\.edges"),
    "edge out of range": (lambda: springs(edges=[[0, 99]]), OutOfRange, r"net\.edges = 99"),
    "batches that do not fit": (
        lambda: simulate(soft(density=torch.ones(2), velocity=torch.zeros(3, 3))),
        WrongShape,
        r"batch \(3,\).*does not broadcast with the batch \(2,\)",
    ),
    "mixed dtypes": (
        lambda: simulate(soft(density=torch.tensor(1.0), position=torch.zeros(3, dtype=torch.float64))),
        MixedDtypes,
        r"box\.position = torch\.float64: box\.density is torch\.float32",
    ),
    "dtype against tensors": (
        lambda: simulate(soft(density=torch.tensor(1.0)), dtype=torch.float64),
        MixedDtypes,
        r"box\.density = torch\.float32: dtype=torch\.float64 was requested",
    ),
    "half precision": (lambda: simulate(soft(), dtype=torch.float16), MixedDtypes, r"dtype = torch\.float16"),
    "mixed devices": (
        lambda: simulate(soft(density=torch.tensor(1.0), position=torch.zeros(3, device="meta"))),
        MixedDevices,
        r"box\.position = meta: box\.density is on cpu",
    ),
    "zero quaternion": (lambda: soft(rotation=(0, 0, 0, 0)), OutOfRange, r"box\.rotation = \(0, 0, 0, 0\)"),
    "per_element of a signal": (
        lambda: soft(actuation=gs.per_element(gs.Signal([0.0, 1.0]))),
        WrongType,
        r"box\.actuation = per_element\(Signal.*Signal\(per_element",
    ),
    "empty batch": (lambda: simulate(soft(density=torch.ones(0))), WrongShape, r"batch = \(0,\)"),
    "a body without a list": (lambda: gs.Scene(soft()), WrongType, r"scene\.bodies = Soft: must be a list"),
    "text for a number": (lambda: soft(density="heavy"), WrongType, r"box\.density = 'heavy'"),
    "integers": (lambda: soft(density=torch.tensor(3)), WrongType, r"box\.density = tensor of torch\.int64"),
    "per_element for a whole body": (
        lambda: soft(position=gs.per_element(np.zeros((NODES, 3)))),
        WrongType,
        r"box\.position",
    ),
    "signal for a constant": (lambda: soft(density=gs.Signal([1.0, 2.0])), WrongType, r"box\.density = Signal"),
    "signal of one sample": (lambda: soft(actuation=gs.Signal([0.1])), WrongShape, r"box\.actuation.*two samples"),
    "density and mass": (lambda: soft(mass=1.0), InvalidInput, r"box\.density/mass/total_mass = density and mass"),
    "neither density nor mass": (lambda: soft(density=None), InvalidInput, r"box\.density/mass/total_mass = none"),
    "solid of triangles": (lambda: soft(mesh=SHEET), WrongType, r"box\.mesh = TriMesh: a soft body needs a TetMesh"),
    "cloth of tetrahedra": (lambda: gs.Cloth("sheet", BOX, 1.0), WrongType, r"sheet\.mesh = TetMesh"),
    "sheet material in a solid": (lambda: soft(material=gs.Membrane()), WrongType, r"box\.material = Membrane"),
    "type of contact": (lambda: soft(contact=0.5), WrongType, r"box\.contact = float"),
    "pinned out of range": (lambda: soft(pinned=[NODES]), OutOfRange, rf"box\.pinned = {NODES}"),
    "pinned by a short mask": (lambda: soft(pinned=np.ones(2, dtype=bool)), WrongShape, r"box\.pinned = mask"),
    "pinned by floats": (lambda: soft(pinned=[0.5]), WrongType, r"box\.pinned = array of float64"),
    "name with a dot": (lambda: soft(name="a.b"), InvalidInput, r"name = 'a\.b'"),
    "same name twice": (lambda: gs.Scene([soft(), soft()]), InvalidInput, r"name = 'box'"),
    "empty scene": (lambda: gs.Scene([]), InvalidInput, r"scene\.bodies"),
    "not a body": (lambda: gs.Scene([BOX]), WrongType, r"scene\.bodies = TetMesh"),
    "type of ground": (lambda: gs.Scene([soft()], ground=0.0), WrongType, r"scene\.ground = float"),
    "ground without normal": (lambda: gs.Ground(normal=(0, 0, 0)), OutOfRange, r"Ground\.normal"),
    "unknown body": (lambda: gs.Scene([soft()])["sphere"], UnknownName, r"body = 'sphere': the scene has box"),
    "unknown motion": (lambda: simulate(soft())["sphere"], UnknownName, r"the trajectory has box"),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_input_is_rejected(case):
    make, error, message = CASES[case]
    with pytest.raises(error, match=message) as caught:
        make()
    assert type(caught.value) is error
    assert isinstance(caught.value, gs.GradsimError)


def test_pinning_by_index_mask_region_and_function_agree():
    expected = np.flatnonzero(BOX.vertices[:, 0] < -0.09)
    selections = (
        expected.tolist(),
        BOX.vertices[:, 0] < -0.09,
        gs.Region(high=(-0.09, None, None)),
        lambda points: points[:, 0] < -0.09,
    )
    for pinned in selections:
        assert np.array_equal(soft(pinned=pinned).pinned, expected)


def test_pinned_nodes_do_not_move():
    body = soft(pinned=[0, 3], velocity=(1.0, 0.0, 0.0), force=(5.0, 0.0, 0.0))
    motion = gs.simulate(gs.Scene([body]), frames=3, substeps=128)
    moved = (motion.vertices[-1] - motion.vertices[0]).norm(dim=-1)
    assert moved[[0, 3]].max() == 0.0
    assert moved[[1, 2]].min() > 0.0


def test_from_young_accepts_tensors_and_per_element():
    young = torch.tensor([1e5, 2e5], dtype=torch.float64, requires_grad=True)
    material = gs.NeoHookean.from_young(young, 0.3)
    assert material.mu.shape == (2,)
    assert material.mu.requires_grad
    shear = young.detach() / 2.6
    assert torch.allclose(material.mu.detach(), 4 / 3 * shear)
    assert torch.allclose(material.lam.detach(), young.detach() * 0.3 / (1.3 * 0.4) + 5 / 6 * shear)
    per_tet = gs.NeoHookean.from_young(gs.per_element(np.full(TETS, 1e5)), 0.3)
    soft(material=per_tet)  # counts fit
    both = gs.NeoHookean.from_young(
        gs.per_element(np.full(TETS, 1e5)), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    )
    assert both.mu.values.shape == (3, TETS)


def test_density_per_element_sums_to_the_mass():
    from gradsim.simulate.compile.compiled_scene import compile_scene

    densities = np.linspace(1.0, 2.0, TETS)
    table = compile_scene(gs.Scene([soft(density=gs.per_element(densities))])).parameters["node"]
    assert float((1 / table[0, 0]).sum()) == pytest.approx((densities * BOX.volumes).sum(), rel=1e-13)


def test_trajectory_slices_by_frame_and_body():
    motion = gs.simulate(gs.Scene([soft(), springs()], gravity=(0, -1, 0)), frames=5, substeps=128)
    assert len(motion) == 5
    assert motion[1:3].vertices.shape == (2, NODES + 9, 3)
    assert torch.equal(motion[-1].vertices[0], motion.final.vertices)
    assert motion[np.int64(1)].vertices.shape == (1, NODES + 9, 3)
    assert motion["net"].vertices.shape == (5, 9, 3)
    assert motion.state(2).time == pytest.approx(2 / 30)
    with pytest.raises(IndexError, match="frame 5"):
        motion[5]


def test_plain_numbers_and_arrays_have_the_same_limits():
    specs = [
        spec
        for kind in (gs.Rigid, gs.Ball, gs.Soft, gs.Cloth, gs.Contact, gs.Ground)
        for _, spec in quantities_of(kind)
    ]
    for spec in {spec for spec in specs if not spec.shape}:
        limits = {
            spec.smallest,
            spec.largest,
            0.0,
            1.0,
            *(x for x in (spec.above, spec.low, spec.below, spec.high) if x),
        }
        for limit in limits:
            for number in (limit, np.nextafter(limit, -np.inf), np.nextafter(limit, np.inf)):
                plain, array = (accepts(value, spec) for value in (float(number), np.array([number])))
                assert plain == array == accepts(torch.tensor(number, dtype=torch.float64), spec), (number, spec)


def accepts(value, spec):
    try:
        validated_array("x", value, spec)
    except InvalidInput:
        return False
    return True


def test_objects_do_not_share_the_arrays_of_their_defaults():
    first, second = gs.Ground(), gs.Ground()
    np.asarray(first.normal)[1] = 2.0
    assert np.asarray(second.normal).tolist() == [0.0, 1.0, 0.0]
    assert np.asarray(gs.Ground().normal).tolist() == [0.0, 1.0, 0.0]


def test_names_contain_no_separator_of_pairs():
    with pytest.raises(InvalidInput, match=r"name = 'left-arm': a body's name must be an identifier"):
        gs.Ball("left-arm", mass=1.0, radius=0.1)
