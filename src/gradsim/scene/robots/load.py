"""`load_robot` reads URDF and MJCF files."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradsim.scene.articulated import Articulated
from gradsim.scene.errors import InvalidInput, MissingExtra, RobotWarning
from gradsim.scene.materials import Contact
from gradsim.scene.robots.files import RobotSource, read_robot_file
from gradsim.scene.robots.links import robot_links

Y_UP = (-math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))  # turns the z axis, which is up in robot files, to y


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot from a file.

    Example:
        `gs.Scene([gs.load_robot("arm.urdf").body])`

    Args:
        body: The articulated body, for a scene.
        joints: Links by the names of their joints in the file.
        links: Links by the names of the bodies or links in the file.
        unsupported: What the file has and simulations leave out, by name.
        path: The file.
        source: Its content, into which `save` writes.
    """

    body: Articulated
    joints: Mapping[str, str]
    links: Mapping[str, str]
    unsupported: tuple[str, ...]
    path: Path
    source: RobotSource = field(repr=False)
    anchors: Mapping[str, Any] = field(repr=False)  # origins of links in the axes of the file's bodies [m], [3]

    def save(self, path: str | os.PathLike[str], body: Articulated | None = None) -> None:
        """Writes the file with the values of a body, such as `fit.scene["arm"]`, in the format that was read.

        Masses, centres, inertias, positions of joints, damping, dry friction, and in MJCF armature and stiffness, are
        written; everything else stays as it was read.

        Args:
            path: File to write.
            body: Body with the links of this robot; that of the file if None.
        """
        from gradsim.scene.robots.save import save_robot

        save_robot(self, path, self.body if body is None else body)


def load_robot(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    y_up: bool = True,
    collides: bool = False,
    contact: Contact | None = None,
) -> Robot:
    """Loads a robot from a URDF or MJCF file.

    Nothing is executed, and only files below one folder are read. What the file has and gradsim does not simulate is
    listed in a `gs.RobotWarning` and in `Robot.unsupported`.

    Example:
        `gs.load_robot("arm.urdf").body`

    Args:
        path: A .urdf file, or the .xml file of an MJCF model.
        name: Name of the body; that of the file if None.
        folder: Folder that holds all files of the robot, below which `package://` is searched; that of the file if
            None.
        y_up: Whether to turn the base such that the z axis of the file points up, along y.
        collides: Whether links touch with the collision geometry of the file. Each shape becomes a link that is fixed
            to its body, such as `foot_shape`; meshes become their convex hulls, as in MuJoCo.
        contact: Contact parameters of all these links; those of what they touch if None.

    Raises:
        MissingExtra: MuJoCo, which parses the files, is not installed.
        InvalidInput: The file is invalid, or names a file outside the folder.
    """
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtra("gs.load_robot()", "robots") from error
    source = read_robot_file(path, folder)
    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)  # otherwise it prints them and writes a log into the current folder
    try:
        model = mujoco.MjSpec.from_string(source.xml, assets=source.assets).compile()
    except (ValueError, mujoco.FatalError) as error:
        raise InvalidInput("path", str(source.path), f"MuJoCo: {error}") from None
    finally:
        mujoco.set_mju_user_warning(None)
    for message in messages:
        warnings.warn(f"{source.path.name}: MuJoCo: {message}", RobotWarning, stacklevel=2)
    found = robot_links(model, collides, contact)
    if not found.links:
        raise InvalidInput("path", str(source.path), "has no links")
    unsupported = tuple(dict.fromkeys((*source.unsupported, *found.unsupported)))
    if unsupported:
        warnings.warn(f"{source.path.name}: not simulated: {', '.join(unsupported)}", RobotWarning, stacklevel=2)
    own = name or _identifier(source)
    body = Articulated(own, found.links, rotation=Y_UP if y_up else None)
    return Robot(body, found.joints, found.bodies, unsupported, source.path, source, found.anchors)


def _identifier(source: RobotSource) -> str:
    given: Any = source.root.get("name") or source.root.get("model") or source.path.stem
    text = "".join(letter if letter.isalnum() else "_" for letter in given)
    return text if text.isidentifier() else f"_{text}"
