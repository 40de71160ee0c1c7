"""nuisances(): all ways in which a given scene may be slightly wrong."""

from __future__ import annotations

from collections.abc import Collection

from gradsim.fit.nuisances.camera import camera_nuisances
from gradsim.fit.nuisances.colors import color_nuisances
from gradsim.fit.nuisances.contact import contact_nuisances
from gradsim.fit.nuisances.lights import light_nuisances
from gradsim.fit.nuisances.nuisance import Nuisance, is_excluded
from gradsim.fit.nuisances.shape import shape_nuisances
from gradsim.fit.nuisances.start import start_nuisances
from gradsim.fit.nuisances.surroundings import gravity_nuisances, plane_nuisances
from gradsim.fit.nuisances.timing import time_nuisances
from gradsim.scene.errors import OutOfRange
from gradsim.scene.quantity import check_known
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory


def nuisances(
    scene: Scene, trajectory: Trajectory | None = None, *, fps: float, excluded: Collection[str] = ()
) -> tuple[Nuisance, ...]:
    """Returns all ways in which a scene may be slightly wrong.

    Args:
        scene: Scene without unknowns: those that are estimated have their values.
        trajectory: Its motion, from which typical speeds and the velocities for drag are taken.
        fps: Frame rate of the video [1/s].
        excluded: Paths of the quantities that are estimated, such as "ground.mu" or "box.velocity[0]".
    """
    if not fps > 0:
        raise OutOfRange("fps", fps, "must be > 0 [1/s]")
    for path, value, _ in (*scene.quantities(), *scene.view_quantities()):
        check_known(path, value)
    found = (
        *camera_nuisances(scene),
        *light_nuisances(scene),
        *color_nuisances(scene),
        *start_nuisances(scene, trajectory),
        *shape_nuisances(scene),
        *gravity_nuisances(scene),
        *plane_nuisances(scene),
        *contact_nuisances(scene),
        *time_nuisances(),
    )
    return tuple(nuisance for nuisance in found if not is_excluded(nuisance, excluded))
