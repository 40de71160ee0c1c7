"""The scenes of the physics benchmarks: elastic beams, cloth and rigid cubes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

import gradsim as gs
from benchmarks.timing import Call, forward_backward_calls

INTEGRATOR = gs.SymplecticEuler()  # the rule of Newton's semi-implicit solver

BEAM_CELLS = {  # tetrahedra -> cells along x, y and z
    100: (5, 2, 2),
    200: (10, 2, 2),
    400: (20, 2, 2),
    1000: (8, 5, 5),
    2000: (16, 5, 5),
    5000: (10, 10, 10),
    10000: (20, 10, 10),
}
SHEET_CELLS = {128: 8, 512: 16, 1922: 31}  # triangles -> cells along an edge


class BenchmarkScene(Protocol):
    """A scene as a function of its unknowns, with a loss on its final positions."""

    @property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [..., 3]."""

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns the parameters whose gradients are computed."""

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """Returns the scene with these parameters."""

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Returns the positions after `steps` steps [m], [..., 3]."""


def rollout_calls(benchmark: BenchmarkScene, dtype: torch.dtype, steps: int) -> dict[str, Call]:
    """Returns the calls "forward" and "forward_backward" of a rollout."""
    unknowns = {name: values.requires_grad_() for name, values in benchmark.unknowns(dtype).items()}
    scene = benchmark.scene(unknowns)
    weights = torch.as_tensor(benchmark.weights, dtype=dtype)
    return forward_backward_calls(lambda: benchmark.simulate(scene, steps), unknowns.values(), weights)


def rollout_steps(elements: int) -> int:
    """Returns the number of steps of a rollout; small scenes get more, so that the cost of the call is negligible."""
    return max(100, 200_000 // elements)


def describe_steps(steps: int | None) -> str:
    """Returns the length of the rollouts, for the title of a table; None stands for `rollout_steps`."""
    return "100 steps (more for small sizes)" if steps is None else f"{steps} steps"


class ElasticScene(ABC):
    """A mesh clamped at its low x end; the free nodes start from perturbed positions and velocities."""

    cell: float  # edge of a cell [m]
    dt: float  # [s]
    noise: float  # standard deviation of the perturbation, in cells
    seed: int

    @property
    @abstractmethod
    def mesh(self) -> Any:
        """The mesh at rest."""

    @abstractmethod
    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns the parameters whose gradients are computed."""

    @abstractmethod
    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """Returns the scene with these parameters."""

    @cached_property
    def pinned(self) -> np.ndarray:
        """Whether a node is fixed, [N]."""
        x = self.mesh.vertices[:, 0]
        return np.asarray(x < x.min() + 0.5 * self.cell)

    @cached_property
    def start(self) -> np.ndarray:
        """Initial positions [m], [N, 3]."""
        return self.mesh.vertices + self.noise * self.cell * self._perturbation[0]

    @cached_property
    def velocity(self) -> np.ndarray:
        """Initial velocities [m/s], [N, 3]."""
        return 2.0 * self.noise * self._perturbation[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [N, 3]."""
        return np.random.default_rng(self.seed + 1).normal(size=self.mesh.vertices.shape)

    @cached_property
    def _perturbation(self) -> np.ndarray:
        noise = np.random.default_rng(self.seed).normal(size=(2, *self.mesh.vertices.shape))
        return noise * ~self.pinned[:, None]

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Returns the positions after `steps` steps [m], [..., N, 3]."""
        fps = 1.0 / (self.dt * steps)
        return gs.simulate(scene, frames=2, fps=fps, substeps=steps, integrator=INTEGRATOR).vertices[..., -1, :, :]


@dataclass(frozen=True)
class Beam(ElasticScene):
    """A block of five tetrahedra a cell."""

    cells: tuple[int, int, int]
    element: gs.LinearTet | gs.SmoothedTet = gs.LinearTet()
    cell: float = 0.1  # [m]
    density: float = 1000.0  # [kg/m^3]
    mu: float = 1e4  # [Pa]
    lam: float = 1e4  # [Pa]
    damping: float = 1.0  # [Pa s]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 3000.0  # [s]
    noise: float = 0.05
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TetMesh:
        return gs.meshes.tet_box(np.array(self.cells) * self.cell, self.cells)

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns mu and lam of every tetrahedron [Pa], [T] each."""
        count = len(self.mesh.tets)
        return {name: torch.full((count,), value, dtype=dtype) for name, value in (("mu", self.mu), ("lam", self.lam))}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        mu, lam = (gs.per_element(unknowns[name]) for name in ("mu", "lam"))
        beam = gs.Soft(
            "beam",
            self.mesh,
            density=self.density,
            material=gs.NeoHookean(mu, lam, self.damping),
            vertices=self.start,
            velocity=gs.per_element(self.velocity),
            pinned=self.pinned,
            element=self.element,
        )
        return gs.Scene([beam], gravity=(0.0, self.gravity, 0.0))


@dataclass(frozen=True)
class Sheet(ElasticScene):
    """A square sheet of two triangles a cell."""

    cells: int
    cell: float = 0.05  # [m]
    density: float = 0.2  # [kg/m^2]
    mu: float = 50.0  # [N/m]
    lam: float = 50.0  # [N/m]
    damping: float = 0.01  # [N s/m]
    stiffness: float = 1e-3  # of bending [N m]
    bending_damping: float = 1e-6  # [N m s]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 3000.0  # [s]
    noise: float = 0.05
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TriMesh:
        return gs.meshes.grid(self.cells * self.cell, self.cells)

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns mu and lam [N/m] and the bending stiffness [N m] of every triangle, [F] each."""
        count = len(self.mesh.faces)
        values = {"mu": self.mu, "lam": self.lam, "stiffness": self.stiffness}
        return {name: torch.full((count,), value, dtype=dtype) for name, value in values.items()}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        values = {name: gs.per_element(value) for name, value in unknowns.items()}
        sheet = gs.Cloth(
            "sheet",
            self.mesh,
            density=self.density,
            material=gs.Membrane(values["mu"], values["lam"], self.damping),
            bending=gs.Bending(values["stiffness"], self.bending_damping),
            vertices=self.start,
            velocity=gs.per_element(self.velocity),
            pinned=self.pinned,
        )
        return gs.Scene([sheet], gravity=(0.0, self.gravity, 0.0))


@dataclass(frozen=True)
class Cubes:
    """A batch of worlds with one cube each, which falls on a plane, tilted, spinning and sliding."""

    count: int
    edge: float = 0.5  # [m]
    kd: float = 50.0  # [N s/m]
    kf: float = 50.0  # [N s/m]
    mu_range: tuple[float, float] = (0.2, 0.8)
    delta: float | None = None  # [m]; gradsim's default if None
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 480.0  # [s]
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TriMesh:
        return gs.meshes.box((self.edge, self.edge, self.edge))

    @cached_property
    def mass(self) -> np.ndarray:
        """[kg], [B]."""
        return self._uniform(0, 5.0, 15.0)

    @cached_property
    def ke(self) -> np.ndarray:
        """[N/m], [B]."""
        return self._uniform(1, 5e3, 1.5e4)

    @cached_property
    def mu(self) -> np.ndarray:
        """[B]."""
        return self._uniform(2, *self.mu_range)

    @cached_property
    def velocity(self) -> np.ndarray:
        """[m/s], [B, 3]: 1 m/s down and about as much sideways."""
        return self._normal(3, 3) + np.array([0.0, -1.0, 0.0])

    @cached_property
    def angular_velocity(self) -> np.ndarray:
        """[rad/s], [B, 3]."""
        return 2.0 * self._normal(4, 3)

    @cached_property
    def rotation(self) -> np.ndarray:
        """Quaternions (x, y, z, w), [B, 4]: tilted by about ten degrees."""
        q = np.concatenate([0.1 * self._normal(5, 3), np.ones((self.count, 1))], 1)
        return q / np.linalg.norm(q, axis=1, keepdims=True)

    @cached_property
    def position(self) -> np.ndarray:
        """[m], [B, 3]: the lowest corner is 1 cm above the plane."""
        x, y, z, w = self.rotation.T
        up = np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], 1)  # second row of R
        height = self.edge / 2 * np.abs(up).sum(1) + 0.01
        return np.stack([np.zeros_like(height), height, np.zeros_like(height)], 1)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [B, 3]."""
        return self._normal(6, 3)

    def _uniform(self, stream: int, low: float, high: float) -> np.ndarray:
        return np.random.default_rng((self.seed, stream)).uniform(low, high, self.count)

    def _normal(self, stream: int, width: int) -> np.ndarray:
        return np.random.default_rng((self.seed, stream)).normal(size=(self.count, width))

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns mass, ke and mu [B] and velocity [B, 3]."""
        return {n: torch.tensor(getattr(self, n), dtype=dtype) for n in ("mass", "ke", "mu", "velocity")}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """Returns all worlds as one scene with a batch dimension."""
        dtype = unknowns["mass"].dtype
        cube = gs.Rigid(
            "cube",
            self.mesh,
            mass=unknowns["mass"],
            position=torch.tensor(self.position, dtype=dtype),
            rotation=torch.tensor(self.rotation, dtype=dtype),
            velocity=unknowns["velocity"],
            angular_velocity=torch.tensor(self.angular_velocity, dtype=dtype),
        )
        ground = gs.Ground(unknowns["ke"], self.kd, self.kf, unknowns["mu"], self.delta)
        return gs.Scene([cube], gravity=(0.0, self.gravity, 0.0), ground=ground)

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Returns the centres of mass after `steps` steps [m], [B, 3]."""
        fps = 1.0 / (self.dt * steps)
        trajectory = gs.simulate(scene, frames=2, fps=fps, substeps=steps, integrator=INTEGRATOR)
        return trajectory["cube"].center_of_mass[..., -1, :]
