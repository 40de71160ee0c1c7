"""The scene: bodies, static shapes, forces and gravity, and the camera, lights and background of its images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gradsim.scene.articulated import Articulated
from gradsim.scene.bodies import PARTS, Springs, contact_of, node_count
from gradsim.scene.body import Body, NodeBody
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, UnknownName, WrongShape, WrongType
from gradsim.scene.forces import Force, check_forces
from gradsim.scene.html import to_html
from gradsim.scene.lights import DEFAULT_LIGHTS, LIGHTS, Light
from gradsim.scene.link_bodies import LinkBody, link_bodies
from gradsim.scene.looks import check_color, look_quantities
from gradsim.scene.materials import Ground
from gradsim.scene.pairs import Pairs, check_pairs
from gradsim.scene.paths import with_values
from gradsim.scene.quantity import Quantity, Spec, TensorLike, quantities, quantity, unknowns_in
from gradsim.scene.rigid import Rigid
from gradsim.scene.shapes import SHAPES, StaticShape
from gradsim.scene.smoke import Smoke
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown
from gradsim.scene.validation import validate_quantities, validated_array

_BACKGROUND = Spec("1", shape=(3,))


@dataclass(frozen=True, eq=False)
class Scene:
    """Bodies and their surroundings at the initial time.

    Example:
        `gs.Scene([cube], ground=gs.Ground(), camera=gs.Camera(eye=(0, 1, 5), target=(0, 0, 0)))`

    Args:
        bodies: `Soft`, `Cloth`, `Springs`, `Rigid`, `Ball`, `Pendulum`, `DoublePendulum`,
            `Articulated`, `Smoke`; names are unique.
        ground: A plane with which bodies collide, or None.
        gravity: Acceleration [m/s^2], [..., 3].
        shapes: Further static shapes by name: `Ground` (another plane), `StaticSphere`, `StaticCapsule`, `StaticBox`.
        camera: Camera; `render` needs one.
        lights: `AmbientLight`, `DirectionalLight`, `PointLight`; without lights surfaces have their own colours.
        background: A colour [..., 3], or with three or more dimensions an image [..., H, W, 3], in [0, 1], which has
            the size of the rendered images or is averaged down to it.
        forces: Forces on or between bodies: `Tether`, or user-defined; each with a unique name.
        pairs: Contact between rigid bodies. By default all touch each other, with the contact parameters of the bodies
            (`contact`). `{"left-right": gs.Contact(...), "left-box": None}` overrides the parameters of some pairs or
            switches them off; False switches off all. Links that collide are named as in `arm/hand-box`.
    """

    bodies: Sequence[Body]
    ground: Ground | None = None
    gravity: Quantity = quantity((0.0, -9.81, 0.0), "m/s^2", shape=(3,))
    shapes: Mapping[str, StaticShape] = field(default_factory=dict)
    camera: Camera | None = None
    lights: Sequence[Light] = DEFAULT_LIGHTS
    background: TensorLike = (1.0, 1.0, 1.0)
    forces: Sequence[Force] = ()
    pairs: Pairs = True

    def __post_init__(self) -> None:
        validate_quantities(self, "scene")
        given: Any = self.bodies
        if not isinstance(given, (list, tuple)):
            raise WrongType("scene.bodies", type(given).__name__, "must be a list of bodies")
        object.__setattr__(self, "bodies", tuple(self.bodies))
        if not self.bodies:
            raise InvalidInput("scene.bodies", "()", "a scene needs at least one body")
        shapes: Any = self.shapes
        if not isinstance(shapes, Mapping):
            remedy = "must be shapes by name, {'ramp': gs.StaticBox(...)}"
            raise WrongType("scene.shapes", type(shapes).__name__, remedy)
        names: set[str] = {"scene", "ground", "camera", "pairs", *map(str, shapes)}
        for body in given:
            if not isinstance(body, Body):
                raise WrongType("scene.bodies", type(body).__name__, f"must hold {_names(Body.kinds)}")
            if body.name in names:
                raise InvalidInput("name", repr(body.name), "every body needs a name of its own")
            names.add(body.name)
        if self.ground is not None and not isinstance(self.ground, Ground):
            raise WrongType("scene.ground", type(self.ground).__name__, "must be a gs.Ground or None")
        for name, shape in shapes.items():
            if not isinstance(shape, SHAPES) or name == "ground":
                raise WrongType(f"scene.shapes[{name!r}]", type(shape).__name__, "must be a static shape, not 'ground'")
        self._check_contacts()
        object.__setattr__(self, "forces", check_forces(self))
        object.__setattr__(self, "pairs", check_pairs(self))
        self._check_view()

    def _check_view(self) -> None:
        if self.camera is not None and not isinstance(self.camera, Camera):
            raise WrongType("scene.camera", type(self.camera).__name__, "must be a gs.Camera or None")
        lights: Any = self.lights
        if not isinstance(lights, (list, tuple)):
            remedy = f"must be a list of {_names(LIGHTS)}; () for bare colours"
            raise WrongType("scene.lights", type(lights).__name__, remedy)
        for k, light in enumerate(lights):
            if not isinstance(light, LIGHTS):
                raise WrongType(f"scene.lights[{k}]", type(light).__name__, f"must be one of {_names(LIGHTS)}")
        object.__setattr__(self, "lights", tuple(lights))
        background = validated_array("scene.background", self.background, _BACKGROUND)
        if 0 in background.shape:
            raise WrongShape("scene.background", f"shape {tuple(background.shape)}", "must have at least one pixel")
        check_color("scene.background", background)
        object.__setattr__(self, "background", background)

    def _check_contacts(self) -> None:
        rigid = {body.name for body in self.rigid_bodies}
        obstacles = self.obstacles
        for body in (*self.bodies, *self.link_bodies):
            contacts = getattr(body, "contact", None)
            others = rigid if isinstance(body, Rigid) else ()
            for name in contacts if isinstance(contacts, Mapping) else ():
                if name == body.name or (name not in obstacles and name not in others):
                    known = ", ".join(obstacles) or "none"
                    raise UnknownName(f"{body.name}.contact", repr(name), f"the scene's shapes are {known}")
            if isinstance(body, NodeBody):
                self._check_damping(body)

    def _check_damping(self, body: NodeBody) -> None:
        """Raises InvalidInput if the contact of a body made of nodes is damped by a restitution."""
        for name, shape in self.obstacles.items():
            if contact_of(body, name, shape).restitution is not None:
                remedy = "is for rigid bodies: give this body contact=gs.Contact(kd=...), or the shape kd"
                raise InvalidInput(f"{body.name}.contact", f"restitution of '{name}'", remedy)

    @property
    def obstacles(self) -> dict[str, StaticShape]:
        """The ground and all static shapes, by name."""
        ground: dict[str, StaticShape] = {} if self.ground is None else {"ground": self.ground}
        return {**ground, **self.shapes}

    @cached_property
    def has_pairs(self) -> bool:
        """Whether several rigid bodies, or links that collide, may touch each other."""
        return self.pairs is not False and sum(getattr(body, "collides", True) for body in self.rigid_bodies) > 1

    @cached_property
    def link_bodies(self) -> tuple[LinkBody, ...]:
        """Links that collide, feel drag, or that a force acts on, as rigid bodies with names such as `arm/hand`."""
        given = self.forces if isinstance(self.forces, (list, tuple)) else ()  # not checked yet at first use
        named = {name for force in given if isinstance(force, Force) for name in force.body_names}
        owners = (body for body in self.bodies if isinstance(body, Articulated))
        return tuple(link for owner in owners for link in link_bodies(owner, named))

    @cached_property
    def rigid_bodies(self) -> tuple[Rigid, ...]:
        """Rigid bodies, then `link_bodies`."""
        return (*(body for body in self.bodies if isinstance(body, Rigid)), *self.link_bodies)

    def _repr_html_(self) -> str:
        return to_html(self)

    def __getitem__(self, name: str) -> Any:
        """Returns a body by its name."""
        for body in self.bodies:
            if body.name == name:
                return body
        raise UnknownName("body", repr(name), f"the scene has {', '.join(body.name for body in self.bodies)}")

    @property
    def unknowns(self) -> dict[str, Unknown]:
        """The unknowns by path; one that is used in several places is listed once, under its first path."""
        return {path: unknown for path, unknown, _ in self.unknown_quantities()}

    def unknown_quantities(self) -> Iterator[tuple[str, Unknown, Spec]]:
        """Yields path, unknown and specification of every unknown, once, under its first path.

        The specification has the narrowest valid range of all places where the unknown is used.
        """
        found: dict[int, tuple[str, Unknown, Spec]] = {}
        for path, unknown, spec in self.unknown_places():
            first, _, known = found.get(id(unknown), (path, unknown, spec))
            if spec.unit != known.unit:
                remedy = f"is one unknown with {first} [{known.unit}]: use a gs.unknown for each"
                raise InvalidInput(path, f"{unknown} [{spec.unit}]", remedy)
            found[id(unknown)] = first, unknown, known.narrowed(spec)
        yield from found.values()

    def unknown_places(self) -> Iterator[tuple[str, Unknown, Spec]]:
        """Yields path, unknown and specification of every place where an unknown is used."""
        for path, value, spec in (*self.quantities(), *self.view_quantities()):
            for place, unknown in unknowns_in(path, value):
                yield place, unknown, spec if place == path else replace(spec, shape=())

    def with_values(self, values: Mapping[str, Any]) -> Scene:
        """Returns a copy with other values at some paths, such as `{"cube.density": 300.0, "ground.mu": tensor}`.

        The value of an unknown that is used in several places is filled in at all of them.
        """
        return with_values(self, values)

    def save(self, path: str | os.PathLike[str], *, time: Time | None = None) -> None:
        """Writes a scene file (.yaml) that `gs.load_scene` reads.

        Arrays of more than 64 numbers are written to an .npz file of the same name beside it. Tensors are written with
        their present values, and pinned nodes as indices.

        Args:
            path: File in an existing folder.
            time: Time settings that belong to the scene.
        """
        from gradsim.scene.files.save import save_scene

        save_scene(self, path, time=time)

    def quantities(self) -> Iterator[tuple[str, Any, Spec]]:
        """Yields path, value and specification of every quantity that is not None, such as `beam.material.mu`."""
        parts: list[tuple[str, Any]] = [("scene", self), *self.obstacles.items()]
        parts += [
            (f"{name}.motion", shape.motion) for name, shape in self.obstacles.items() if shape.motion is not None
        ]
        parts += [(force.name, force) for force in self.forces]
        if isinstance(self.pairs, Mapping):
            parts += [(f"pairs.{pair}", contact) for pair, contact in self.pairs.items() if contact is not None]
        for body in self.bodies:
            parts.append((body.name, body))
            for part in PARTS:
                if getattr(body, part, None) is not None:
                    parts.append((f"{body.name}.{part}", getattr(body, part)))
            if isinstance(body, Rigid) and body.drag is not None:
                parts.append((f"{body.name}.drag", body.drag))
            contacts = getattr(body, "contact", None)
            if isinstance(contacts, Mapping):
                parts += [(f"{body.name}.contact.{name}", contact) for name, contact in contacts.items()]
            elif contacts is not None:
                parts.append((f"{body.name}.contact", contacts))
            if getattr(body, "self_contact", None) is not None:
                parts.append((f"{body.name}.self_contact", getattr(body, "self_contact")))  # noqa: B009
            if getattr(body, "motion", None) is not None:
                parts.append((f"{body.name}.motion", getattr(body, "motion")))  # noqa: B009
            if isinstance(body, Articulated):
                parts += body.parts()
            parts += [(f"{body.name}.pushes[{k}]", push) for k, push in enumerate(getattr(body, "pushes", ()))]
            if isinstance(body, Smoke):
                for name, single in (("density", ()), ("velocity", (2,))):
                    field_ = getattr(body, name)
                    yield f"{body.name}.{name}", field_, Spec("", single if field_.ndim < 2 else (*body.size, *single))
            if isinstance(body, NodeBody):
                points: Any = getattr(body, "points" if isinstance(body, Springs) else "vertices")
                if points is not None:
                    name = "points" if isinstance(body, Springs) else "vertices"
                    yield f"{body.name}.{name}", points, Spec("m", shape=(node_count(body), 3))
        for label, part in parts:
            for name, spec in quantities(part):
                value = getattr(part, name)
                if value is not None:
                    yield f"{label}.{name}", value, spec

    def view_quantities(self) -> Iterator[tuple[str, Any, Spec]]:
        """Yields the same for quantities of images, such as `camera.eye`, `lights[0].intensity`, `beam.look.color`."""
        parts: list[tuple[str, Any]] = [(f"lights[{k}]", light) for k, light in enumerate(self.lights)]
        if self.camera is not None:
            parts.insert(0, ("camera", self.camera))
        for label, part in parts:
            for name, spec in quantities(part):
                if getattr(part, name) is not None:
                    yield f"{label}.{name}", getattr(part, name), spec
        links = [part for body in self.bodies if isinstance(body, Articulated) for part in body.parts()]
        for owner, item in (*self.obstacles.items(), *((body.name, body) for body in self.bodies), *links):
            look = getattr(item, "look", None)
            for name, value, spec in look_quantities(look) if look is not None else ():
                yield f"{owner}.look.{name}", value, spec
        background: Any = self.background
        yield (
            "scene.background",
            background,
            Spec("1", shape=tuple(background.shape[-3 if background.ndim > 2 else -1 :])),
        )


def _names(kinds: Iterable[type]) -> str:
    """Returns the public names of classes."""
    return ", ".join(f"gs.{kind.__name__}" for kind in kinds)
