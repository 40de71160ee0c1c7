"""What a scene file may say: pydantic models made from the nouns themselves.

A noun's fields, defaults and units are read off its dataclass, a mesh builder's arguments off its signature, so nothing
is declared here a second time. Annotations are read with other meanings for their names: where a noun says `Look`, the
file has a mapping of a look's fields. A noun is built while its part of the file is validated; so its own checks are
the file's, and pydantic says where they failed.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    create_model,
    model_validator,
)

from gradsim.scene.bodies import Region
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.files.values import ARRAY, FILE, NODES, check_keys, quantity_type, short
from gradsim.scene.gears import tet_gear
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.lights import LIGHTS
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.mesh_files import load_mesh, tetrahedralize
from gradsim.scene.meshes import TetMesh, TriMesh, grid, oriented, tet_ball, tet_box
from gradsim.scene.rigid import Push
from gradsim.scene.scene import BODIES, Scene
from gradsim.scene.shapes import SHAPES
from gradsim.scene.smoke import Closed, Periodic
from gradsim.scene.spelling import did_you_mean
from gradsim.scene.surfaces import box, capsule, cone, cylinder, icosphere, outward, sphere, torus
from gradsim.scene.time import Time

Names = dict[str, Any]

# Nouns that stand alone where only they can stand, each after those it is made of.
PARTS = (Look, Checker, Contact, Bending, Push, Region, Camera, Ground)
MADE = (
    box,
    capsule,
    cone,
    cylinder,
    grid,
    icosphere,
    oriented,
    sphere,
    tet_ball,
    tet_box,
    tet_gear,
    torus,
    TetMesh,
    TriMesh,
)
CHANGED = (outward, tetrahedralize)  # meshes made of others

LEFT_OUT: Any = Field(default_factory=lambda: None)  # a default that is not for showing


def kind_of(make: Any) -> str:
    """The word for one of several kinds: `double_pendulum`, `sphere` for StaticSphere, `point` for PointLight."""
    name = make.__name__.removeprefix("Static").removesuffix("Light")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _or_first_argument(schema: dict[str, Any]) -> None:
    """Add to a builder's schema that its first argument may stand alone."""
    fields = dict(schema)
    schema.clear()
    schema["anyOf"] = [fields, {"type": ["number", "string", "array", "object"]}]


def _or_word(schema: dict[str, Any]) -> None:
    """Add to the schema of kinds that there is one key, or a word alone."""
    kinds = {**schema, "minProperties": 1, "maxProperties": 1}
    schema.clear()
    schema["anyOf"] = [kinds, {"enum": list(kinds["properties"])}]


class Fields(BaseModel):
    """Fields of a noun, or arguments of a builder, as a mapping."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        fields, owner = cls.model_fields, cls.__name__
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise WrongType("", short(given), f"must be the fields of {owner}: {', '.join(fields)}")
        check_keys(given, fields, owner)
        for name, field in fields.items():
            if field.is_required() and name not in given:
                raise InvalidInput(name, "missing", f"{owner} needs it")
        return given


class Arguments(Fields):
    """Arguments of a builder: what is no mapping is the first of them, as in `box: 0.5`."""

    model_config = ConfigDict(json_schema_extra=_or_first_argument)

    @model_validator(mode="before")
    @classmethod
    def _take_first(cls, given: Any) -> Any:
        plain = given is None or (isinstance(given, Mapping) and "file" not in given)
        return given if plain else {next(iter(cls.model_fields)): given}


class OneOf(BaseModel):
    """One of several kinds: a mapping with one key, which says what it is; or that word alone."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", json_schema_extra=_or_word)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        kinds, owner = list(cls.model_fields), cls.__name__
        known = ", ".join(kinds)
        if isinstance(given, str) and given in kinds:
            given = {given: {}}
        if not isinstance(given, Mapping) or not given:
            hint = did_you_mean(given, kinds) if isinstance(given, str) else ""
            raise WrongType("", short(given), f"{hint}must be one of {known}")
        first = next(iter(given))
        if first in kinds and given[first] is None and len(given) > 1:
            raise WrongType(first, "nothing", f"indent the fields of the {owner} further than '{first}:'")
        if len(given) > 1:
            found = ", ".join(map(str, given))
            raise WrongType("", found, f"must have one key that says which {owner} it is: one of {known}")
        if first not in kinds:
            raise WrongType(str(first), short(given[first]), f"{did_you_mean(str(first), kinds)}must be one of {known}")
        return given


def _form(make: Callable[..., Any], names: Names, base: type[Fields] = Fields, **changed: Any) -> Any:
    """What a noun or builder is made of, as a type for pydantic that makes it."""
    return Annotated[_model(make, names, base, **changed), AfterValidator(lambda model: make(**_given(model)))]


def _given(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}


def _model(make: Callable[..., Any], names: Names, base: type[Fields] = Fields, **changed: Any) -> type[BaseModel]:
    noun = inspect.isclass(make)
    hints = get_type_hints(make.__init__ if noun else make, localns=names, include_extras=True)
    specs = {f.name: f.metadata.get("spec") for f in dataclasses.fields(make)} if noun else {}  # type: ignore[arg-type]
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(make).parameters.values():
        hint = changed.pop(parameter.name, None) or hints[parameter.name]
        spec = specs.get(parameter.name)
        if spec is not None:
            hint = quantity_type(spec) | None if spec.optional else quantity_type(spec)
        fields[parameter.name] = (_told_apart(hint), _default(parameter))
    fields |= {name: (hint, LEFT_OUT) for name, hint in changed.items()}
    return create_model(kind_of(make), __base__=base, **fields)


def _default(parameter: inspect.Parameter) -> Any:
    """A default for the documentation: where the file says nothing, the noun's own holds."""
    if parameter.default is inspect.Parameter.empty:
        return ...
    numbers = isinstance(parameter.default, (int, float)) or np.array(parameter.default).dtype.kind == "f"
    return Field(default=parameter.default) if numbers else LEFT_OUT


def _told_apart(hint: Any) -> Any:
    """A noun, or several of them by name: told apart by their keys, so that an error is about what was meant."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    by_name = next((member for member in members if get_origin(member) is Mapping), None)
    if by_name is None:
        return hint
    one = get_args(by_name)[1]
    fields = get_args(one)[0].model_fields

    def several(given: Mapping[str, Any]) -> bool:
        nested = all(isinstance(value, Mapping) for value in given.values())
        return nested and bool(given) and not any(key in fields for key in given)

    return _either(one, by_name, several) | None


def _either(one: Any, other: Any, is_other: Callable[[Mapping[str, Any]], bool]) -> Any:
    """One of two types, told apart by the keys of a mapping; what is no mapping is the first."""

    def choose(given: Any) -> str:
        return "(other)" if isinstance(given, Mapping) and is_other(given) else "(one)"

    return Annotated[Annotated[one, Tag("(one)")] | Annotated[other, Tag("(other)")], Discriminator(choose)]


def _kinds(owner: str, forms: Mapping[str, Any]) -> Any:
    """One of several kinds, as a type for pydantic."""
    fields: Any = {kind: (form, LEFT_OUT) for kind, form in forms.items()}
    model = create_model(owner, __base__=OneOf, **fields)
    return Annotated[model, AfterValidator(lambda one: getattr(one, next(iter(one.model_fields_set))))]


def _meshes(names: Names) -> Any:
    """A mesh: built in, from a file, from arrays, or made of another one of these."""
    simple = {kind_of(make): _form(make, names, Arguments) for make in MADE}
    simple["file"] = _form(load_mesh, names, Arguments, path=FILE)
    inner = {**names, "TriMesh": _kinds("surface", simple)}
    return _kinds("mesh", simple | {kind_of(make): _form(make, inner, Arguments) for make in CHANGED})


def _material(noun: Any, names: Names) -> Any:
    """A material by its own moduli, or by Young's modulus and Poisson's ratio."""
    engineering = _form(noun.from_young, names)
    return _either(_form(noun, names), engineering, lambda given: "young" in given or "poisson" in given)


def _names() -> Names:
    """What the names in the nouns' annotations stand for in a file."""
    names: Names = {"float": StrictFloat, "int": StrictInt, "bool": StrictBool, "str": StrictStr}
    names |= {name: quantity_type() for name in ("Quantity", "Plain")}
    names |= dict.fromkeys(("Any", "ArrayLike", "Floats", "Ints"), ARRAY)
    for part in PARTS:
        names[part.__name__] = _form(part, names)
    names |= {noun.__name__: _material(noun, names) for noun in (NeoHookean, Membrane)}
    names["Pinned"] = _either(NODES, names["Region"], lambda given: "file" not in given) | None
    names |= dict.fromkeys(("TriMesh", "TetMesh"), _meshes(names))
    families = {
        "Boundary": ("boundary", (Closed, Periodic)),
        "Integrator": ("integrator", (Midpoint, SymplecticEuler)),
        "Light": ("light", LIGHTS),
        "StaticShape": ("shape", SHAPES),
        "Body": ("body", BODIES),
    }
    for alias, (owner, nouns) in families.items():
        names[alias] = _kinds(owner, {kind_of(noun): _form(noun, names) for noun in nouns})
    return names


@functools.cache
def scene_model() -> type[BaseModel]:
    """The whole file: the fields of a scene, and its time."""
    names = _names()
    return _model(Scene, names, time=_form(Time, names))


def read_scene(model: BaseModel) -> tuple[Scene, Time]:
    """The scene and time of a whole file.

    Raises:
        InvalidInput: The parts of the scene do not fit together.
    """
    given = _given(model)
    time = given.pop("time", None) or Time()
    return Scene(**given), time


def scene_schema() -> dict[str, Any]:
    """The JSON schema of scene files, for editors and other programs."""
    return scene_model().model_json_schema()
