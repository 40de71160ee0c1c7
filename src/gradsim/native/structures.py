"""Data that Python and C++ share, each declared once in Python.

A `Structure` gives Python a ctypes class to fill in and C++ a definition with static assertions on its size and on the
offset and size of every field. An `Enumeration` gives both sides the same numbering, `Constants` the same integers.
`Rows` names the rows of a parameter array. `kernel_module` places the generated C++ before the headers that use it.
"""

import ctypes
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

INT64 = "long long"
FLOAT64 = "double"
_SCALARS = {INT64: ctypes.c_longlong, FLOAT64: ctypes.c_double}


class Structure:
    """A C++ structure, a template over the scalar type `T`, and its ctypes twin.

    Args:
        name: Name in C++.
        fields: C++ type by field name, in order: "long long", "double", a pointer such as "const T*" or "int**",
            another `Structure`, or `(type, count)` for an array of these.
        comment: One line for the generated C++.
        members: C++ member functions to put into the structure.
    """

    def __init__(self, name: str, fields: Mapping[str, Any], *, comment: str = "", members: str = ""):
        self.name, self.fields, self.comment, self.members = name, dict(fields), comment, members

    @cached_property
    def ctype(self) -> Any:
        """The ctypes class; pointers are given as addresses."""
        fields = [(name, _ctype(kind)) for name, kind in self.fields.items()]
        return type(self.name, (ctypes.Structure,), {"_fields_": fields})

    def __call__(self, **values: Any) -> Any:
        """An instance of the ctypes class."""
        return self.ctype(**values)

    @property
    def size(self) -> int:
        """[bytes]."""
        return ctypes.sizeof(self.ctype)

    def cpp(self) -> str:
        """C++ definition with static assertions."""
        lines = [f"// {self.comment}"] if self.comment else []
        lines += [f"template <class T> struct {self.name} {{"]
        lines += [f"    {_declaration(name, kind)};" for name, kind in self.fields.items()]
        lines += [self.members] if self.members else []
        lines += ["};"]
        for scalar in ("float", "double"):
            instance = f"{self.name}<{scalar}>"
            lines.append(f'static_assert(sizeof({instance}) == {self.size}, "size of {self.name}");')
            for name in self.fields:
                field = getattr(self.ctype, name)
                offset, size = f"__builtin_offsetof({instance}, {name})", f"sizeof({instance}::{name})"
                condition = f"{offset} == {field.offset} && {size} == {field.size}"
                lines.append(f'static_assert({condition}, "offset and size of {self.name}::{name}");')
        return "\n".join(lines)


def _ctype(kind: Any) -> Any:
    if isinstance(kind, tuple):
        return _ctype(kind[0]) * kind[1]
    if isinstance(kind, Structure):
        return kind.ctype
    return ctypes.c_void_p if kind.endswith("*") else _SCALARS[kind]


def _declaration(name: str, kind: Any) -> str:
    if isinstance(kind, tuple):
        return f"{_declaration(name, kind[0])}[{kind[1]}]"
    return f"{kind.name}<T> {name}" if isinstance(kind, Structure) else f"{kind} {name}"


class Enumeration:
    """Integers 0, 1, 2, ... by name, which C++ knows as `scope::name`.

    Args:
        scope: C++ namespace.
        names: Identifiers, in order. C++ also has `count`, their number.
    """

    def __init__(self, scope: str, names: Mapping[str, Any] | tuple[str, ...]):
        self.scope, self.names = scope, tuple(names)
        for number, name in enumerate(self.names):
            setattr(self, name, number)

    def __getattr__(self, name: str) -> int:
        raise AttributeError(f"{self.scope} has {', '.join(self.names)}, not {name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        return self.names.index(name)

    def row(self, **values: Any) -> list[Any]:
        """Returns one value for each name, in order."""
        if values.keys() != set(self.names):
            raise TypeError(f"{self.scope} has {', '.join(self.names)}, not {', '.join(values)}")
        return [values[name] for name in self.names]

    def cpp(self) -> str:
        """C++ definition."""
        return f"namespace {self.scope} {{ enum {{ {', '.join((*self.names, 'count'))} }}; }}"


class Constants:
    """Integers by name, which C++ knows as `scope::name`.

    Args:
        scope: C++ namespace.
        values: Integers by identifier.
    """

    def __init__(self, scope: str, **values: int):
        self.scope, self.values = scope, values

    def __getattr__(self, name: str) -> int:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"{self.scope} has {', '.join(self.values)}, not {name}") from None

    def cpp(self) -> str:
        """C++ definition."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"namespace {self.scope} {{ constexpr int {values}; }}"


def Rows(family: str, *names: str) -> Enumeration:
    """Rows of a family's parameter array: `rows.mu` in Python, `family_row::mu` in C++."""
    return Enumeration(f"{family}_row", names)
