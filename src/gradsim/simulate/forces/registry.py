"""All force families. Forces are summed in the order of `FORCE_FAMILIES`."""

from collections.abc import Iterator

from gradsim.scene.errors import InvalidInput
from gradsim.scene.forces import Force
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.bending import BENDING, HINGES
from gradsim.simulate.forces.bulk_viscosity import BULK_VISCOSITY
from gradsim.simulate.forces.colliders import COLLIDERS
from gradsim.simulate.forces.connections import CONNECTIONS
from gradsim.simulate.forces.drag import DRAG
from gradsim.simulate.forces.external import EXTERNAL
from gradsim.simulate.forces.family import ForceFamily, ParameterFamily
from gradsim.simulate.forces.mass_damping import MASS_DAMPING
from gradsim.simulate.forces.node_contact import NODE_CONTACT
from gradsim.simulate.forces.node_pairs import NODE_PAIRS
from gradsim.simulate.forces.node_rigid_contact import NODE_RIGID_CONTACT
from gradsim.simulate.forces.pairs import PAIRS
from gradsim.simulate.forces.pushes import PUSHES
from gradsim.simulate.forces.rigid_contact import RIGID_CONTACT
from gradsim.simulate.forces.shapes import STATIC_SHAPES
from gradsim.simulate.forces.smoothed_tetrahedra import SMOOTHED_TETRAHEDRA
from gradsim.simulate.forces.solids import FIBRES, MOONEY_RIVLIN, ST_VENANT_KIRCHHOFF, STANDARD_NEO_HOOKEAN
from gradsim.simulate.forces.springs import SPRINGS
from gradsim.simulate.forces.tethers import TETHERS
from gradsim.simulate.forces.tetrahedra import TETRAHEDRA
from gradsim.simulate.forces.triangles import TRIANGLES
from gradsim.simulate.state.links import LINKS
from gradsim.simulate.state.prescribed import NODE_MOTION, RIGID_MOTION

FORCE_FAMILIES: tuple[ForceFamily, ...] = (
    EXTERNAL,
    SPRINGS,
    TRIANGLES,
    BENDING,
    TETRAHEDRA,
    SMOOTHED_TETRAHEDRA,
    ST_VENANT_KIRCHHOFF,
    STANDARD_NEO_HOOKEAN,
    MOONEY_RIVLIN,
    FIBRES,
    MASS_DAMPING,
    BULK_VISCOSITY,
    NODE_CONTACT,
    NODE_PAIRS,
    RIGID_CONTACT,
    PAIRS,
    DRAG,
    PUSHES,
    TETHERS,
    CONNECTIONS,
    NODE_RIGID_CONTACT,
)
PARAMETER_FAMILIES: tuple[ParameterFamily, ...] = (
    STATIC_SHAPES,
    HINGES,
    COLLIDERS,
    NODE_MOTION,
    RIGID_MOTION,
    LINKS,
)  # that are no forces

_registered: dict[type[Force], ForceFamily] = {}


def register_force_family(family: ForceFamily) -> ForceFamily:
    """Registers a force family, so that scenes may have forces of the types in its `owners`.

    Example:
        `gs.register_force_family(family)`

    Raises:
        InvalidInput: The name is that of a built-in family, or an owner is not a `gs.Force`.
    """
    known = [own.name for own in (*FORCE_FAMILIES, *PARAMETER_FAMILIES)]
    if family.name in known:
        raise InvalidInput("ForceFamily.name", repr(family.name), f"is taken; gradsim has {', '.join(known)}")
    for owner in family.owners:
        if not issubclass(owner, Force):
            raise InvalidInput("ForceFamily.owners", owner.__name__, "must be subclasses of gs.Force")
        _registered[owner] = family
    return family


def families_of(scene: Scene) -> Iterator[ParameterFamily]:
    """Yields all families that may have elements in a scene: shared parameters first, then forces in order."""
    yield from PARAMETER_FAMILIES
    yield from FORCE_FAMILIES
    built_in = (*TETHERS.owners, *CONNECTIONS.owners, *NODE_RIGID_CONTACT.owners)
    yield from dict.fromkeys(_family_of(force) for force in scene.forces if not isinstance(force, built_in))


def _family_of(force: Force) -> ForceFamily:
    family = _registered.get(type(force))
    if family is None:
        kind = type(force).__name__
        raise InvalidInput(
            force.name,
            f"a {kind}",
            f"no force family is registered for {kind}: gs.node_force, gs.rigid_force or gs.register",
        )
    return family
