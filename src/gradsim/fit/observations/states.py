"""Measured states of bodies, such as those of motion capture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gradsim.fit.observations.base import Adjust, Index, Observation, brief, measurements
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.rotation import rotation_vector
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

ROTATION = "rotation"
UNIT_TOLERANCE = 0.02  # of the length of a measured quaternion, which may be rounded to two digits

UNITS = {
    "position": "m",
    "center_of_mass": "m",
    "vertices": "m",
    "bobs": "m",
    "velocity": "m/s",
    "velocities": "m/s",
    ROTATION: "rad",
    "angular_velocity": "rad/s",
    "angular_momentum": "kg m^2/s",
    "angle": "rad",
    "angles": "rad",
    "rate": "rad/s",
    "rates": "rad/s",
    "densities": "1",
    "image": "1",
}  # of the attributes of motions
VECTORS = ("position", "center_of_mass", "velocity", "angular_velocity", "angular_momentum")  # of shape [T, 3]


class States(Observation):
    """Measured states by body and attribute of its motion, such as `{"cube.position": [T, 3]}`.

    Rotations, quaternions (x, y, z, w) [T, 4] of either sign, are compared by the rotation vector [rad] from the
    measured to the simulated one. NaN marks what is missing; a rotation with one NaN is missing as a whole.

    Example:
        `gs.estimate(scene, gs.States({"cube.position": positions}, noise=0.001), fps=120.0)`

    Args:
        values: Measured values by path, each [T, ...]. The attributes are those of the motions in a trajectory:
            `position`, `velocity`, `rotation`, `angular_velocity`, `vertices`, ...
        weights: Weights by path, each a number or [T].
        options: `noise`, `robust`, `frames` and `offset`; see `Observation`. `noise` and `robust` are given by
            attribute if the attributes have different units: `{"position": 0.001, "rotation": 0.01}`.
    """

    option_names = ("noise", "robust", "frames", "offset")
    values: Mapping[str, torch.Tensor]

    def __init__(self, values: Mapping[str, Any], *, weights: Mapping[str, Any] | None = None, **options: Any):
        if not isinstance(values, Mapping) or not values:
            raise WrongType("values", brief(values), "must be measured values by path, {'cube.position': [T, 3]}")
        targets = {path: _checked_target(path, value) for path, value in values.items()}
        lengths = {len(value) for value in targets.values()}
        if len(lengths) != 1:
            raise WrongShape("States", f"lengths {sorted(lengths)}", "all must have the same number of frames")
        super().__init__(lengths.pop(), options, {"values": values, "weights": weights})
        vars(self).pop("weights")  # a method has this name
        vars(self).update(values=targets, unit=_common_unit(targets))
        vars(self).update(_path_weights=_checked_weights(weights or {}, targets))
        for name in ("noise", "robust"):
            self._check_groups(name, getattr(self, name))

    def _check_groups(self, option: str, value: Any) -> None:
        """Raises unless an option is one value for entries of one unit, or values by attribute."""
        names = [name for name, _ in self.groups()]
        if isinstance(value, Mapping):
            for name in value:
                if name not in names:
                    raise InvalidInput(option, repr(name), f"the attributes are {', '.join(names)}")
        elif value is not None and len(units := {self.group_unit(name) for name in names}) > 1:
            example = ", ".join(f'"{name}": ...' for name in names)
            raise InvalidInput(option, value, f"the units are {', '.join(sorted(units))}: give {{{example}}}")

    def entries(self, level: int) -> int:
        return sum(_entry_count(path, value) for path, value in self.values.items())

    def _slices(self) -> dict[str, slice]:
        """Entries of a frame by path."""
        slices, start = {}, 0
        for path, value in self.values.items():
            count = _entry_count(path, value)
            slices[path] = slice(start, start + count)
            start += count
        return slices

    def groups(self) -> list[tuple[str, Index]]:
        """Attributes, such as `position`, and the entries of a frame that belong to each."""
        entries: dict[str, list[torch.Tensor]] = {}
        for path, part in self._slices().items():
            entries.setdefault(_attribute(path), []).append(torch.arange(part.start, part.stop))
        return [(name, torch.cat(parts)) for name, parts in entries.items()]

    def group_unit(self, group: str) -> str:
        return UNITS.get(group, "1")

    def entry_weights(self, level: int) -> torch.Tensor | None:
        given = vars(self)["_path_weights"]
        missing = {path: _missing(path, value) for path, value in self.values.items()}
        if not given and not any(bool(part.any()) for part in missing.values()):
            return None
        one = torch.ones((), dtype=torch.float64)
        parts = [torch.where(part, 0.0, given.get(path, one).reshape(-1, 1)) for path, part in missing.items()]
        return torch.cat(parts, -1)

    def series(self) -> torch.Tensor:
        """Measured entries over time, [T, N]; rotations as rotation vectors from the first measured one."""
        parts = []
        for path, value in self.values.items():
            if _attribute(path) == ROTATION:
                valid = torch.nonzero(~torch.isnan(value).any(-1))[:, 0]
                first = value[valid[0]] if len(valid) else value.new_tensor([0.0, 0.0, 0.0, 1.0])
                parts.append(rotation_vector(first.expand_as(value), value))
            else:
                parts.append(value.flatten(1))
        return torch.cat(parts, -1)

    def difference(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        self.check_no_images(samples, adjust, readouts)
        count, parts = len(trajectory), []
        for path, measured in self.values.items():
            value = _simulated(path, trajectory, measured)
            target = measured[:count].to(value.dtype).nan_to_num()
            if _attribute(path) == ROTATION:
                missing = torch.isnan(measured[:count]).any(-1, keepdim=True)
                identity = target.new_tensor([0.0, 0.0, 0.0, 1.0])
                difference = rotation_vector(torch.where(missing, identity, target), value)
            else:
                difference = (value - target).flatten(value.ndim - target.ndim + 1)
            parts.append(torch.where(_missing(path, measured)[:count], 0.0, difference))
        return torch.cat(parts, -1)


def _attribute(path: str) -> str:
    return path.partition(".")[2]


def _entry_count(path: str, value: torch.Tensor) -> int:
    return 3 if _attribute(path) == ROTATION else value[0].numel()


def _missing(path: str, value: torch.Tensor) -> torch.Tensor:
    """Whether each entry is missing, [T, N]."""
    missing = torch.isnan(value).flatten(1)
    return missing.any(-1, keepdim=True).expand(-1, 3) if _attribute(path) == ROTATION else missing


def _common_unit(values: Mapping[str, torch.Tensor]) -> str:
    """Unit of the values; several are listed."""
    return ", ".join(dict.fromkeys(UNITS.get(_attribute(path), "1") for path in values))


def _checked_target(path: str, value: Any) -> torch.Tensor:
    body, _, name = path.partition(".")
    if not body or not name:
        raise InvalidInput("States", repr(path), "must be a body and an attribute of its motion: 'cube.position'")
    target = measurements(path, value)
    shape = (4,) if name == ROTATION else (3,) if name in VECTORS else None
    if target.ndim < 2 or (shape is not None and tuple(target.shape[1:]) != shape):
        trailing = "..." if shape is None else shape[0]
        kind = ", a quaternion (x, y, z, w) per frame" if name == ROTATION else f" [{UNITS.get(name, '1')}]"
        raise WrongShape(path, f"shape {tuple(target.shape)}", f"must be [T, {trailing}]{kind}")
    return _unit_quaternions(path, target) if name == ROTATION else target


def _unit_quaternions(path: str, target: torch.Tensor) -> torch.Tensor:
    length = target.norm(dim=-1, keepdim=True)
    if bool(((length - 1.0).abs() > UNIT_TOLERANCE).any()):
        worst = float(length.nan_to_num(1.0).flatten()[(length.nan_to_num(1.0).flatten() - 1).abs().argmax()])
        raise OutOfRange(path, f"length {worst:g}", "must be unit quaternions (x, y, z, w), or NaN where missing")
    return target / length


def _checked_weights(weights: Any, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if not isinstance(weights, Mapping):
        raise WrongType("weights", brief(weights), "must be weights by path, {'cube.position': 2.0}")
    checked = {}
    for path, given in weights.items():
        if path not in values:
            raise InvalidInput("weights", repr(path), f"the paths are {', '.join(values)}")
        array = measurements(f"weights[{path!r}]", given)
        if tuple(array.shape) not in ((), (len(values[path]),)):
            valid = f"must be a number or [{len(values[path])}], one per frame"
            raise WrongShape(f"weights[{path!r}]", f"shape {tuple(array.shape)}", valid)
        if not float(array.min()) >= 0:
            raise NotFinite(f"weights[{path!r}]", f"smallest {float(array.min()):g}", "must be >= 0")
        checked[path] = array
    return checked


def _simulated(path: str, trajectory: Trajectory, measured: torch.Tensor) -> torch.Tensor:
    """Returns an attribute of a motion, [..., T', ...]."""
    body, _, name = path.partition(".")
    motion = trajectory[body]
    if not hasattr(motion, name):
        known = [item for item in UNITS if hasattr(motion, item)]
        raise InvalidInput("States", path, f"the motion of {body!r} has no {name!r}, but {', '.join(known)}")
    value: torch.Tensor = getattr(motion, name)
    own = tuple(value.shape[value.ndim - measured.ndim + 1 :])
    if value.ndim < measured.ndim or own != tuple(measured.shape[1:]):
        shape = f"shape {tuple(measured.shape)}"
        raise WrongShape(path, shape, f"must be [T, {', '.join(map(str, own))}], as the motion of {body!r} has")
    return value
