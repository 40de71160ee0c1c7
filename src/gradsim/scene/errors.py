"""What can go wrong, by name. Every error says which quantity, its value, and what would be valid."""

from __future__ import annotations


class GradsimError(Exception):
    """Base of every error gradsim raises on purpose."""


class InvalidInput(GradsimError, ValueError):
    """A quantity the user gave cannot be used.

    Attributes:
        name: Path of the quantity, such as ``beam.material.mu``.
        value: What was given, shortened for reading.
        valid: What would be valid.
    """

    def __init__(self, name: str, value: object, valid: str):
        self.name, self.value, self.valid = name, value, valid
        super().__init__(f"{name} = {value}: {valid}")


class NotFinite(InvalidInput):
    """A quantity holds NaN or infinity."""


class OutOfRange(InvalidInput):
    """A quantity lies outside its physical range: a negative mass, a Poisson ratio of 0.5."""


class WrongShape(InvalidInput):
    """An array has the wrong shape, or batch dimensions that do not broadcast."""


class WrongType(InvalidInput):
    """A value of a kind that cannot stand here."""


class MixedDtypes(InvalidInput):
    """Tensors of one scene differ in dtype."""


class MixedDevices(InvalidInput):
    """Tensors of one scene live on different devices."""


class UnsupportedDevice(InvalidInput):
    """A tensor lives on a device that the called function does not run on."""


class InvertedElement(InvalidInput):
    """An element of a mesh is inside out: negative volume."""


class DegenerateElement(InvalidInput):
    """An element of a mesh has no volume, area or length."""


class UnknownName(InvalidInput, KeyError):
    """A body or field of that name does not exist."""

    __str__ = Exception.__str__


class MeshFileError(InvalidInput):
    """A mesh file is missing, unreadable, or of the wrong kind."""


class VideoFileError(InvalidInput):
    """A video file is missing, unreadable, too short, or of the wrong kind."""


class SceneFileError(InvalidInput):
    """A scene file is missing, unreadable, or says something that cannot be.

    Attributes:
        file: The scene file.
        line: Line in it, counted from 1, or None for the whole file.
    """

    def __init__(self, file: str, line: int | None, name: str, value: object, valid: str):
        super().__init__(name, value, valid)
        self.file, self.line = file, line
        where = file if line is None else f"{file}, line {line}"
        self.args = (f"{where}: {self.args[0]}",)


class OutOfMemory(InvalidInput):
    """The memory limit is too small for the rollout that was asked for."""


class MissingExtra(GradsimError, ImportError):
    """An optional package is needed; the message is the pip command that installs it."""

    def __init__(self, purpose: str, extra: str):
        self.extra = extra
        super().__init__(f"{purpose} needs an optional package: pip install 'gradsim[{extra}]'")


class Diverged(GradsimError, ArithmeticError):
    """A rollout left the finite numbers.

    Attributes:
        body: Name of the body that left first.
        step: Physics step, counted from the start of the rollout.
        time: Time of that step [s].
        world: Index into the flattened batch.
        dt: Time step that was used [s].
        stable_dt: Largest stable time step estimated for the scene [s].
    """

    def __init__(self, body: str, step: int, time: float, world: int, dt: float, stable_dt: float):
        self.body, self.step, self.time, self.world = body, step, time, world
        self.dt, self.stable_dt = dt, stable_dt
        where = f"body '{body}' left the finite numbers at t = {time:.6g} s (step {step}, world {world})"
        if dt > stable_dt:
            advice = f"dt = {dt:.3g} s is above the estimated largest stable dt of {stable_dt:.3g} s: raise substeps"
        else:
            advice = (
                f"dt = {dt:.3g} s is below the estimated largest stable dt of {stable_dt:.3g} s, so the motion itself "
                "runs away: look at forces, actuation and contact stiffness, or raise substeps"
            )
        super().__init__(f"{where}; {advice}")


class BrokenGradient(GradsimError, ArithmeticError):
    """A backward pass produced NaN or infinity, or was asked for what it cannot give."""


class ContactWarning(UserWarning):
    """A body is too heavy for the contact parameters it rests on."""


class SilhouetteWarning(UserWarning):
    """A loss uses only the colours of a renderer whose colours do not see outlines move."""


class StabilityWarning(UserWarning):
    """The time step lies clearly above the estimated stable one."""
