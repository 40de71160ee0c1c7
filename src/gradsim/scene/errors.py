"""Errors and warnings. The message of an error names the quantity, its value and what is valid."""

from __future__ import annotations

import math
from typing import Any


class GradsimError(Exception):
    """Base class of the errors that gradsim raises.

    Example:
        `with contextlib.suppress(gs.GradsimError): gs.load_scene("nothing.yaml")`
    """

    def __reduce__(self) -> Any:
        # By default a copy, as for an error in another process, is made from the message alone.
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[GradsimError], args: tuple[Any, ...], attributes: dict[str, Any]) -> GradsimError:
    """Returns an error with its message and attributes, without its constructor."""
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class InvalidInput(GradsimError, ValueError):
    """A quantity has an invalid value.

    Example:
        `with contextlib.suppress(gs.InvalidInput): gs.Ball("ball", radius=-0.1, mass=1.0)`

    Attributes:
        name: Path of the quantity, such as ``beam.material.mu``.
        value: Given value, abbreviated.
        valid: Valid values, or a remedy.
    """

    def __init__(self, name: str, value: object, valid: str):
        self.name, self.value, self.valid = name, value, valid
        super().__init__(f"{name} = {value}: {valid}")


class NotFinite(InvalidInput):
    """A quantity contains NaN or infinity."""


class OutOfRange(InvalidInput):
    """A quantity lies outside its valid range, such as a negative mass or a Poisson's ratio of 0.5."""


class WrongShape(InvalidInput):
    """An array has the wrong shape, or batch dimensions that do not broadcast."""


class WrongType(InvalidInput):
    """A value has the wrong type."""


class MixedDtypes(InvalidInput):
    """Tensors of one scene have different dtypes."""


class MixedDevices(InvalidInput):
    """Tensors of one scene are on different devices."""


class UnsupportedDevice(InvalidInput):
    """A tensor lives on a device that the called function does not run on."""


class UnsupportedTransform(InvalidInput):
    """A tensor is inside a transform of `torch.func` that the called function has no rule for, such as `jvp`."""


class InvertedElement(InvalidInput):
    """An element of a mesh is inverted: it has negative volume."""


class DegenerateElement(InvalidInput):
    """An element of a mesh has zero volume, area or length."""


class UnknownName(InvalidInput, KeyError):
    """No body, field or quantity has this name."""

    __str__ = Exception.__str__


class MeshFileError(InvalidInput):
    """A mesh file is missing, unreadable, or of an unsupported format."""


class VideoFileError(InvalidInput):
    """A video file is missing, unreadable, too short, or of an unsupported format."""


class MovingCamera(InvalidInput):
    """The camera of a recording moves, in a way that stabilization does not remove."""


class NoMovingObject(InvalidInput):
    """No object moves through a recording clearly enough to be followed."""


class UnexplainedMotion(InvalidInput):
    """No kind of motion explains the path of the object in a recording."""


class NoMarker(InvalidInput):
    """No frame of a recording shows the tag or dot that is looked for."""


class CalibrationError(InvalidInput):
    """Pictures do not calibrate a lens: no board is found, or the views are too few or too similar."""


class LensFileError(InvalidInput):
    """The file of a lens is missing, unreadable or invalid."""


class SceneCut(InvalidInput):
    """A recording consists of several takes: the picture changes completely from one frame to the next."""


class AmbiguousObject(InvalidInput):
    """Several objects of a recording move alike, and none was chosen."""


class SceneFileError(InvalidInput):
    """A scene file is missing, unreadable or invalid.

    Example:
        `with contextlib.suppress(gs.SceneFileError): gs.load_scene("damaged.yaml")`

    Attributes:
        file: The scene file.
        line: Line of the error, counted from 1; None if it concerns the whole file.
    """

    def __init__(self, file: str, line: int | None, name: str, value: object, valid: str):
        super().__init__(name, value, valid)
        self.file, self.line = file, line
        where = file if line is None else f"{file}, line {line}"
        self.args = (f"{where}: {self.args[0]}",)


class OutOfMemory(InvalidInput):
    """The memory limit is too small for the requested rollout."""


class MissingExtra(GradsimError, ImportError):
    """An optional package is not installed; the message has the pip command that installs it.

    Example:
        `with contextlib.suppress(gs.MissingExtra): gs.view(scene)`
    """

    def __init__(self, purpose: str, extra: str):
        self.extra = extra
        super().__init__(f"{purpose} needs an optional package: pip install 'gradsim[{extra}]'")


class Diverged(GradsimError, ArithmeticError):
    """A rollout produced NaN or infinity.

    Example:
        `with contextlib.suppress(gs.Diverged): gs.simulate(scene, frames=60, substeps=1)`

    Attributes:
        body: Name of the first body with a state that is not finite.
        step: Time step at which it diverged, counted from the start of the rollout.
        time: Time of that step [s].
        world: Index into the flattened batch.
        dt: Time step used [s].
        stable_dt: Estimated largest stable time step of the scene [s].
    """

    def __init__(self, body: str, step: int, time: float, world: int, dt: float, stable_dt: float):
        self.body, self.step, self.time, self.world = body, step, time, world
        self.dt, self.stable_dt = dt, stable_dt
        where = f"body '{body}' diverged (NaN or infinity) at t = {time:.6g} s (step {step}, world {world})"
        if math.isinf(stable_dt):
            advice = (
                "every step is stable, so the motion itself diverges or an implicit step did not converge: "
                "check forces, actuation and contact stiffness, or raise substeps"
            )
        elif dt > stable_dt:
            advice = f"dt = {dt:.3g} s is above the estimated largest stable dt of {stable_dt:.3g} s: raise substeps"
        else:
            advice = (
                f"dt = {dt:.3g} s is below the estimated largest stable dt of {stable_dt:.3g} s, so the motion itself "
                "diverges: check forces, actuation and contact stiffness, or raise substeps"
            )
        super().__init__(f"{where}; {advice}")


class BrokenGradient(GradsimError, ArithmeticError):
    """A backward pass produced NaN or infinity, or the requested derivative is not implemented.

    Example:
        `with contextlib.suppress(gs.BrokenGradient): loss(scene).backward()`
    """


class ContactWarning(UserWarning):
    """A body is too heavy for its contact, creeps with the default friction, or passes through another one.

    Example:
        `warnings.simplefilter("error", gs.ContactWarning)`
    """


class SilhouetteWarning(UserWarning):
    """A loss uses only the colours of a renderer whose colours have no gradient from moving silhouettes.

    Example:
        `warnings.simplefilter("error", gs.SilhouetteWarning)`
    """


class RobotWarning(UserWarning):
    """A robot file has features that are not simulated; the message lists them.

    Example:
        `warnings.simplefilter("ignore", gs.RobotWarning)`
    """


class StabilityWarning(UserWarning):
    """The time step is well above the estimated largest stable one.

    Example:
        `warnings.simplefilter("error", gs.StabilityWarning)`
    """
