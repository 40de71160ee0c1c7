"""Structures that the native rollouts share with Python: a difference between the two sides fails at build time."""

import pytest
import warp as wp

from gradsim import bridge
from gradsim.native import kernel_module
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.engine import structures
from gradsim.simulate.engine.structures import SHARED_DEFINITIONS, Tableau
from gradsim.simulate.engine.world_rollout import HEADERS
from gradsim.simulate.forces.tetrahedra import ROWS


class Changed:
    """A definition whose C++ side was edited."""

    def __init__(self, definition, old, new):
        self.text = definition.cpp().replace(old, new)
        assert self.text != definition.cpp()

    def cpp(self):
        return self.text


def build(name, **changed):
    """Compiles the native rollout of rigid bodies with some definitions replaced."""
    bridge.initialize()
    definitions = [changed.get(getattr(d, "name", getattr(d, "scope", "")), d) for d in SHARED_DEFINITIONS]
    headers = [HEADERS / "tetrahedra.h", HEADERS / "rigid_rollout.h"]
    module = kernel_module(
        f"shared_rollout_{name}", wp.float64, *headers, definitions=(*definitions, Tableau(Midpoint()))
    )

    @wp.func_native("gradsim::tet_force(*(gradsim::ForceArrays<double>*)p, 0, *(gradsim::Nodes<double>*)p);")
    def call(p: wp.uint64): ...

    @wp.kernel(enable_backward=False, module=module)
    def kernel(p: wp.uint64):
        call(p)

    wp.load_module(module, device="cpu")


BLOCKS, SIZES = "    const int* blocks;\n", "    const int* sizes;\n"
EDITS = {
    "deleted": {"Nodes": (structures.NODES, "    T* v_adj;\n", "")},
    "swapped": {"RigidBodies": (structures.RIGID_BODIES, BLOCKS + SIZES, SIZES + BLOCKS)},
    "widened": {"ForceArrays": (structures.FORCE, "long long kind;", "__int128 kind;")},
    "narrowed": {"SignalArrays": (structures.SIGNAL, "long long first;", "int first;")},
    "lost row": {"tet_row": (ROWS, "lam, ", "")},
}


def test_the_generated_definitions_build():
    build("untouched")


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_one_side_fails_at_build_time(name, capfd):
    changed = {key: Changed(*edit) for key, edit in EDITS[name].items()}
    with pytest.raises(Exception, match="CPU kernel build failed"):
        build(name.replace(" ", "_"), **changed)


def test_integrators_with_equal_stages_share_kernels():
    assert Tableau(Midpoint()).name == Tableau(Midpoint()).name != Tableau(SymplecticEuler()).name
