"""Schema of scene files: pydantic models generated from the scene objects.

Fields, defaults and units of a scene object come from its dataclass, arguments of a mesh builder from its signature, so
that nothing is declared twice. Names in annotations resolve to types of the file: where a scene object has a `Look`,
the file has a mapping of the fields of a look. Each scene object is created while its part of the file is validated, so
its own checks apply, and pydantic reports where they failed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, UnionType
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

from gradsim.scene.articulated import Link
from gradsim.scene.bodies import Region
from gradsim.scene.body import Body
from gradsim.scene.camera import Camera
from gradsim.scene.closed_surfaces import outward
from gradsim.scene.damping import Rayleigh
from gradsim.scene.elements import LinearTet, SmoothedTet
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.files.values import ARRAY, FILE, NODES, check_keys, quantity_type, type_key
from gradsim.scene.forces import Force
from gradsim.scene.friction import Regularized, Sticking
from gradsim.scene.gears import tet_gear
from gradsim.scene.integrators import Integrator
from gradsim.scene.joints import Joint
from gradsim.scene.lights import LIGHTS
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.mesh_files import load_mesh, tetrahedralize
from gradsim.scene.meshes import TetMesh, TriMesh, grid, oriented, tet_ball, tet_box
from gradsim.scene.models import model
from gradsim.scene.motion import Motion
from gradsim.scene.quantity import specs_of
from gradsim.scene.rigid import Drag, Push
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import SelfContact
from gradsim.scene.shapes import SHAPES
from gradsim.scene.smoke import Closed, Periodic
from gradsim.scene.solids import FURTHER_SOLIDS, Fibres
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.scene.surfaces import box, capsule, cone, cylinder, icosphere, sphere, torus
from gradsim.scene.time import Time

TypesByName = dict[str, Any]  # name in an annotation -> pydantic type

# Classes whose fields are written without a type key, each after the classes it contains.
ELEMENTS = (LinearTet, SmoothedTet)
UNTAGGED = (Look, Checker, Motion, SelfContact, Contact, Bending, Fibres, Rayleigh, Push, Drag, Region, Camera, Ground)
MESH_BUILDERS = (
    box,
    capsule,
    cone,
    cylinder,
    grid,
    icosphere,
    model,
    oriented,
    sphere,
    tet_ball,
    tet_box,
    tet_gear,
    torus,
    TetMesh,
    TriMesh,
)
MESH_FILTERS = (outward, tetrahedralize)  # from a surface to another mesh

HIDDEN_DEFAULT: Any = Field(default_factory=lambda: None)  # an optional field without default in the JSON schema


def _allow_first_argument(schema: dict[str, Any]) -> None:
    """Extends the JSON schema of a builder: its first argument may be written without name."""
    fields = dict(schema)
    schema.clear()
    schema["anyOf"] = [fields, {"type": ["number", "string", "array", "object"]}]


def _allow_bare_key(schema: dict[str, Any]) -> None:
    """Extends the JSON schema of a tagged union: exactly one key, or the key as a string."""
    tagged = {**schema, "minProperties": 1, "maxProperties": 1}
    schema.clear()
    schema["anyOf"] = [tagged, {"enum": list(tagged["properties"])}]


class FieldsModel(BaseModel):
    """Fields of a scene object, or arguments of a builder, as a mapping."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        fields, owner = cls.model_fields, cls.__name__
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise WrongType("", abbreviate(given), f"must be a mapping of the fields of {owner}: {', '.join(fields)}")
        check_keys(given, fields, owner)
        for name, field in fields.items():
            if field.is_required() and name not in given:
                raise InvalidInput(name, "missing", f"is required for {owner}")
        return given


class ArgumentsModel(FieldsModel):
    """Arguments of a builder; a value other than a mapping is its first argument, as in `box: 0.5`."""

    model_config = ConfigDict(json_schema_extra=_allow_first_argument)

    @model_validator(mode="before")
    @classmethod
    def _name_first(cls, given: Any) -> Any:
        named = given is None or (isinstance(given, Mapping) and "file" not in given)
        return given if named else {next(iter(cls.model_fields)): given}


class TaggedUnion(BaseModel):
    """One of several types: a mapping with one key, the type key; or that key as a string."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", json_schema_extra=_allow_bare_key)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        tags, owner = list(cls.model_fields), cls.__name__
        known = ", ".join(tags)
        if isinstance(given, str) and given in tags:
            given = {given: {}}
        if not isinstance(given, Mapping) or not given:
            hint = did_you_mean(given, tags) if isinstance(given, str) else ""
            raise WrongType("", abbreviate(given), f"{hint}must be one of {known}")
        tag = next(iter(given))
        if tag in tags and given[tag] is None and len(given) > 1:
            raise WrongType(tag, "empty", f"indent the fields of the {owner} further than '{tag}:'")
        if len(given) > 1:
            keys = ", ".join(map(str, given))
            raise WrongType("", keys, f"must have one key, the type of the {owner}: one of {known}")
        if tag not in tags:
            hint = did_you_mean(str(tag), tags)
            raise WrongType(str(tag), abbreviate(given[tag]), f"{hint}must be one of {known}")
        return given


def _built_type(
    build: Callable[..., Any], types: TypesByName, base: type[FieldsModel] = FieldsModel, **overrides: Any
) -> Any:
    """Returns a pydantic type that validates the arguments of a class or builder, then calls it."""
    model = _model(build, types, base, **overrides)
    return Annotated[model, AfterValidator(lambda arguments: build(**_given_fields(arguments)))]


def _given_fields(model: BaseModel) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}


def _model(
    build: Callable[..., Any], types: TypesByName, base: type[FieldsModel] = FieldsModel, **overrides: Any
) -> type[BaseModel]:
    """Returns a pydantic model of the parameters of a class or builder; `overrides` replace or add field types."""
    is_class = inspect.isclass(build)
    specs = specs_of(build) if is_class else {}  # type: ignore[arg-type]
    function: Any = build.__init__ if is_class else build
    others = {name: hint for name, hint in function.__annotations__.items() if name not in specs}
    namespace = SimpleNamespace(__annotations__=others)
    own = inspect.unwrap(function)
    hints = get_type_hints(namespace, getattr(own, "__globals__", None), types, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(build).parameters.values():
        spec = specs.get(parameter.name)
        if spec is not None:
            hint = quantity_type(spec) | None if spec.optional else quantity_type(spec)
        else:
            hint = overrides.pop(parameter.name, None) or hints[parameter.name]
        fields[parameter.name] = (_discriminated(hint), _default(parameter))
    fields |= {name: (hint, HIDDEN_DEFAULT) for name, hint in overrides.items()}
    return create_model(type_key(build), __base__=base, **fields)


def _default(parameter: inspect.Parameter) -> Any:
    """Returns the default for the JSON schema. Loading does not use it: fields that are not given are not passed on."""
    if parameter.default is inspect.Parameter.empty:
        return ...
    is_number = isinstance(parameter.default, (int, float)) or np.array(parameter.default).dtype.kind == "f"
    return Field(default=parameter.default) if is_number else HIDDEN_DEFAULT


def _discriminated(hint: Any) -> Any:
    """Returns a union of an object and a mapping of such objects by name, discriminated by the keys in the file.

    Pydantic then reports the errors of one alternative instead of both. Other types are returned unchanged.
    """
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    by_name = next((member for member in members if get_origin(member) is Mapping), None)
    if by_name is None:
        return hint
    single = get_args(by_name)[1]
    fields = get_args(single)[0].model_fields

    def is_by_name(given: Mapping[str, Any]) -> bool:
        nested = all(isinstance(value, Mapping) for value in given.values())
        return nested and bool(given) and not any(key in fields for key in given)

    return _union_by_keys(single, by_name, is_by_name) | None


def _union_by_keys(one: Any, other: Any, is_other: Callable[[Mapping[str, Any]], bool]) -> Any:
    """Returns a union of two types, discriminated by the keys of a mapping; other values are of the first type."""

    def choose(given: Any) -> str:
        return "(other)" if isinstance(given, Mapping) and is_other(given) else "(one)"

    return Annotated[Annotated[one, Tag("(one)")] | Annotated[other, Tag("(other)")], Discriminator(choose)]


def _tagged_union(owner: str, members: Mapping[str, Any]) -> Any:
    """Returns a pydantic type for one of several types, selected by key."""
    fields: Any = {key: (member, HIDDEN_DEFAULT) for key, member in members.items()}
    model = create_model(owner, __base__=TaggedUnion, **fields)
    return Annotated[model, AfterValidator(lambda union: getattr(union, next(iter(union.model_fields_set))))]


def _mesh_type(types: TypesByName) -> Any:
    """Returns the type of a mesh: a builder, a file, arrays, or a filter applied to one of these."""
    sources = {type_key(build): _built_type(build, types, ArgumentsModel) for build in MESH_BUILDERS}
    sources["file"] = _built_type(load_mesh, types, ArgumentsModel, path=FILE)
    inner = {**types, "TriMesh": _tagged_union("surface", sources)}
    filters = {type_key(build): _built_type(build, inner, ArgumentsModel) for build in MESH_FILTERS}
    return _tagged_union("mesh", sources | filters)


def _material_type(cls: Any, types: TypesByName) -> Any:
    """Returns the type of a material, given by mu and lam or by Young's modulus and Poisson's ratio."""
    by_young = _built_type(cls.from_young, types)
    return _union_by_keys(_built_type(cls, types), by_young, lambda given: "young" in given or "poisson" in given)


def _solid_material_type(types: TypesByName) -> Any:
    """Returns the type of a solid's material: that of `NeoHookean`, or a type key with the fields of another one."""
    tagged = {type_key(cls): _built_type(cls, types) for cls in FURTHER_SOLIDS}
    others = _tagged_union("material", tagged)
    return _union_by_keys(_material_type(NeoHookean, types), others, lambda given: any(key in tagged for key in given))


def _file_types() -> TypesByName:
    """Returns the types in a file for the names in the annotations of scene objects."""
    types: TypesByName = {"float": StrictFloat, "int": StrictInt, "bool": StrictBool, "str": StrictStr}
    types |= {"Sequence": Sequence, "Mapping": Mapping}  # for classes in other modules that inherit fields
    types |= {name: quantity_type() for name in ("Quantity", "TensorLike")}
    types |= dict.fromkeys(("Any", "ArrayLike", "Floats", "Ints"), ARRAY)
    friction = {type_key(cls): _built_type(cls, types) for cls in (Sticking, Regularized)}
    types["Friction"] = _tagged_union("friction", friction)
    types["TetElement"] = _tagged_union("element", {type_key(cls): _built_type(cls, types) for cls in ELEMENTS})
    for cls in UNTAGGED:
        types[cls.__name__] = _built_type(cls, types)
    types |= {"SolidMaterial": _solid_material_type(types), "SheetMaterial": _material_type(Membrane, types)}
    contact: Any = types["Contact"]
    types["Pairs"] = _union_by_keys(StrictBool, Mapping[str, contact | None], lambda given: True)
    types["Pinned"] = _union_by_keys(NODES, types["Region"], lambda given: "file" not in given) | None
    types |= dict.fromkeys(("TriMesh", "TetMesh"), _mesh_type(types))
    types["Joint"] = _tagged_union("joint", {type_key(cls): _built_type(cls, types) for cls in Joint.kinds})
    types["Link"] = _built_type(Link, types)
    unions = {
        "Boundary": ("boundary", (Closed, Periodic)),
        "Integrator": ("integrator", tuple(Integrator.kinds)),
        "Light": ("light", LIGHTS),
        "StaticShape": ("shape", SHAPES),
        "Body": ("body", tuple(Body.kinds)),
        "Force": ("force", tuple(Force.kinds)),
    }
    for alias, (owner, classes) in unions.items():
        types[alias] = _tagged_union(owner, {type_key(cls): _built_type(cls, types) for cls in classes})
    return types


def scene_model() -> type[BaseModel]:
    """Returns the model of a whole file: the fields of a scene, and `time`."""
    return _scene_model((*Body.kinds, *Force.kinds, *Integrator.kinds))


@functools.lru_cache(maxsize=4)  # created at first use because it takes time, and again when a kind is declared
def _scene_model(kinds: tuple[type, ...]) -> type[BaseModel]:
    types = _file_types()
    return _model(Scene, types, time=_built_type(Time, types))


def create_scene(model: BaseModel) -> tuple[Scene, Time]:
    """Creates the scene and time settings of a validated file.

    Raises:
        InvalidInput: The objects of the scene are inconsistent.
    """
    fields = _given_fields(model)
    time = fields.pop("time", None) or Time()
    return Scene(**fields), time


def scene_schema() -> dict[str, Any]:
    """Returns the JSON schema of scene files, for editors and other programs.

    Example:
        `json.dumps(gs.scene_schema())`
    """
    return scene_model().model_json_schema()
