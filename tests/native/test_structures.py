"""Data shared by Python and C++: one declaration, and a build that fails where the two sides differ."""

import ctypes

import pytest
import warp as wp

from gradsim import bridge
from gradsim.native import SHARED, kernel_module
from gradsim.native.structures import FLOAT64, INT64, Constants, Enumeration, Rows, Structure
from gradsim.render.job import RASTER_JOB

PAIR = Structure("Pair", {"first": "const T*", "second": INT64})
OUTER = Structure("Outer", {"pair": PAIR, "weights": (FLOAT64, 3), "places": "int**"}, comment="Holds a pair.")


def test_ctypes_fields():
    outer = OUTER(weights=(ctypes.c_double * 3)(1.0, 2.0, 3.0), places=1234)
    outer.pair.second = 5
    assert OUTER.size == 16 + 24 + 8
    assert outer.places == 1234
    assert list(outer.weights) == [1.0, 2.0, 3.0]


def test_enumerations_and_constants():
    kinds = Enumeration("kind", ("plain", "textured"))
    assert (kinds.plain, kinds.textured, len(kinds), list(kinds)) == (0, 1, 2, ["plain", "textured"])
    assert kinds.row(textured="b", plain="a") == ["a", "b"]
    with pytest.raises(TypeError, match="plain, textured"):
        kinds.row(plain=1)
    with pytest.raises(AttributeError, match="kind has plain, textured, not shiny"):
        kinds.shiny  # noqa: B018
    sizes = Constants("size", columns=4, rows=2)
    assert (sizes.columns, sizes.rows) == (4, 2)
    with pytest.raises(AttributeError, match="size has columns, rows"):
        sizes.depth  # noqa: B018
    assert Rows("tet", "mu", "lam").cpp() == "namespace tet_row { enum { mu, lam, count }; }"


class Text:
    """C++ in place of a definition."""

    def __init__(self, text: str):
        self.text = text

    def cpp(self) -> str:
        return self.text


def build(name: str, *definitions) -> None:
    """Compiles a kernel that includes some definitions."""
    bridge.initialize()
    module = kernel_module(f"shared_{name}", wp.float64, SHARED / "simd.h", definitions=definitions)

    @wp.kernel(enable_backward=False, module=module)
    def empty():
        pass

    wp.load_module(module, device="cpu")


TAMPERED = {
    "deleted": lambda text: text.replace("    double near;\n", ""),
    "swapped": lambda text: text.replace(
        "    double near;\n    const double* options;\n", "    const double* options;\n    double near;\n"
    ),
    "widened": lambda text: text.replace("long long height;", "__int128 height;"),
    "narrowed": lambda text: text.replace("long long channels;", "int channels;"),
}


def test_declarations_build():
    build("untampered", PAIR, OUTER, RASTER_JOB, Enumeration("kind", ("plain",)), Constants("size", columns=4))


@pytest.mark.parametrize("change", TAMPERED)
def test_a_structure_that_differs_does_not_build(change, capfd):
    text = RASTER_JOB.cpp()
    tampered = TAMPERED[change](text)
    assert tampered != text
    with pytest.raises(Exception, match="CPU kernel build failed"):
        build(change, Text(tampered))
    assert "RasterJob" in capfd.readouterr().err
