"""Bars of hexahedra with selective reduced integration: a finite-element code of its own, as a reference for `modulus`.

It shares nothing with the simulator but the energy of the material. The half of a bar with z >= 0 is computed, as the
other one is its mirror image. The terms of mu are integrated at eight points of a hexahedron, the change of volume at
its centre, so that nearly incompressible bars do not lock. Systems are solved by a banded Cholesky factor.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

SIGNS = np.array(list(itertools.product((-1, 1), repeat=3)))  # of the corners
EDGE_LAM = 0.625  # of mu: that part of lam is integrated at the eight points, so that both parts are stiff
NEWTON_STEPS, TOLERANCE = 25, 1e-7  # relative to the load
PERMUTATION = np.zeros((3, 3, 3))
for _even in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    PERMUTATION[_even], PERMUTATION[_even[::-1]] = 1.0, -1.0


@dataclass(frozen=True)
class Bar:
    """A box of length along x, clamped at the low end, with an even number of cells along z."""

    size: tuple[float, float, float]  # [m]
    cells: tuple[int, int, int]

    @functools.cached_property
    def half(self) -> tuple[int, int, int]:
        return (*self.cells[:2], self.cells[2] // 2)

    @functools.cached_property
    def vertices(self) -> np.ndarray:
        """Of the half with z >= 0 [m], [N, 3], x slowest."""
        lows = (-0.5, -0.5, 0.0)
        axes = [s * np.linspace(low, 0.5, n + 1) for s, low, n in zip(self.size, lows, self.half, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)

    @functools.cached_property
    def corners(self) -> np.ndarray:
        """Nodes of the hexahedra, [E, 8]."""
        index = np.arange(len(self.vertices)).reshape([n + 1 for n in self.half])
        a, b, c = self.half
        starts = (SIGNS + 1) // 2
        return np.stack([index[i : i + a, j : j + b, k : k + c].ravel() for i, j, k in starts], 1)

    @functools.cached_property
    def spacing(self) -> np.ndarray:
        return np.array(self.size) / self.cells

    @functools.cached_property
    def node_volume(self) -> np.ndarray:
        """An eighth of each hexahedron for every corner [m^3], [N]."""
        return np.bincount(self.corners.ravel(), minlength=len(self.vertices)) * self.spacing.prod() / 8

    @functools.cached_property
    def end_share(self) -> np.ndarray:
        """Share of each node in a uniform traction on the free end, of the whole bar; sums to a half, [N]."""
        at_end = np.isclose(self.vertices[:, 0], 0.5 * self.size[0])
        share = np.where(at_end, self.node_volume, 0.0)
        return 0.5 * share / share.sum()

    @functools.cached_property
    def free(self) -> np.ndarray:
        """Degrees of freedom that are neither clamped nor normal to the plane of symmetry, [3 N]."""
        free = np.repeat(~np.isclose(self.vertices[:, 0], -0.5 * self.size[0]), 3).reshape(-1, 3)
        free[np.isclose(self.vertices[:, 2], 0.0), 2] = False
        return free.ravel()

    def gradients(self, point: np.ndarray) -> np.ndarray:
        """Returns the gradients of the shape functions at a point of the reference cube [1/m], [8, 3]."""
        factors = 0.5 * (1 + SIGNS * point)
        columns = [SIGNS[:, k] / self.spacing[k] * np.delete(factors, k, 1).prod(1) for k in range(3)]
        return np.stack(columns, 1)

    @functools.cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Entries of the element matrices in a lower band: which are in it, their flat index, and its height."""
        dofs = (3 * self.corners[:, :, None] + np.arange(3)).reshape(len(self.corners), 24)
        rows, columns = (np.broadcast_to(a, (*dofs.shape, 24)) for a in (dofs[:, :, None], dofs[:, None, :]))
        kept = (rows >= columns) & self.free[rows] & self.free[columns]
        below = (rows - columns)[kept]
        height = int((rows - columns).max()) + 1
        return kept, below * self.free.size + columns[kept], height

    def forces(self, moved: np.ndarray, mu: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the elastic forces [3 N] at displacements [N, 3], and the tangent stiffness as a lower band."""
        own = moved[self.corners]
        force, matrix = np.zeros((len(own), 24)), np.zeros((len(own), 24, 24))
        samples = [(s / 3**0.5, 0.125, (mu, EDGE_LAM * mu)) for s in SIGNS] + [
            (np.zeros(3), 1.0, (0.0, lam - EDGE_LAM * mu))
        ]
        for point, share, moduli in samples:
            gradients = self.gradients(point)
            F = np.eye(3) + np.einsum("eai,aj->eij", own, gradients)
            stress, tangent = stress_and_tangent(F, *moduli)
            rows = np.einsum("aj,ik->ijak", gradients, np.eye(3)).reshape(9, 24)
            weight = share * self.spacing.prod()
            force += weight * stress.reshape(-1, 9) @ rows
            matrix += weight * (rows.T @ (tangent.reshape(-1, 9, 9) @ rows))
        dofs = 3 * self.corners[:, :, None] + np.arange(3)
        total = np.bincount(dofs.ravel(), force.ravel(), self.free.size)
        kept, flat, height = self.places
        band = np.bincount(flat, matrix[kept], height * self.free.size).reshape(height, -1)
        band[0, ~self.free] = 1.0
        return total, band

    def equilibrium(self, load: np.ndarray, mu: float, lam: float, steps: int = 1) -> np.ndarray:
        """Returns the displacements [m], [N, 3], in balance with a load [N], [N, 3], which is applied in steps."""
        allowed = TOLERANCE * np.abs(load).sum()
        moved = np.zeros_like(self.vertices)
        for fraction in np.linspace(0.0, 1.0, steps + 1)[1:]:
            moved = self._balanced(moved, fraction * load, mu, lam, allowed)
        return moved

    def _balanced(self, moved: np.ndarray, load: np.ndarray, mu: float, lam: float, allowed: float) -> np.ndarray:
        """Returns the displacements in equilibrium by Newton's method, from others nearby."""
        for _ in range(NEWTON_STEPS):
            force, band = self.forces(moved, mu, lam)
            left = np.where(self.free, load.ravel() - force, 0.0)
            if np.abs(left).sum() < allowed:
                return moved
            moved = moved + scipy.linalg.solveh_banded(band, left, lower=True, overwrite_ab=True).reshape(-1, 3)
        raise ArithmeticError(f"no equilibrium after {NEWTON_STEPS} steps of Newton's method")

    def vibration(
        self, acceleration: np.ndarray, density: float, mu: float, lam: float, times: np.ndarray, modes: int = 14
    ) -> np.ndarray:
        """Returns the small displacements [m], [T, N, 3], of a bar at rest on which an acceleration acts from t = 0.

        The modes of lowest frequency vibrate; the rest, which hardly moves, is left out.
        """
        _, band = self.forces(np.zeros_like(self.vertices), mu, lam)
        factor = (scipy.linalg.cholesky_banded(band, overwrite_ab=True, lower=True), True)
        mass = np.repeat(density * self.node_volume, 3)
        root = np.sqrt(np.where(self.free, mass, 0.0))

        def compliance(vector: np.ndarray) -> np.ndarray:
            return root * scipy.linalg.cho_solve_banded(factor, root * vector)

        operator = scipy.sparse.linalg.LinearOperator((root.size, root.size), matvec=compliance, dtype=float)
        start = root * np.tile(acceleration, len(self.vertices))
        inverse_squares, vectors = scipy.sparse.linalg.eigsh(operator, modes, which="LM", v0=start)
        amplitudes = inverse_squares * (vectors.T @ start)
        phases = 1.0 - np.cos(np.outer(times, inverse_squares**-0.5))
        moved = (phases * amplitudes) @ vectors.T
        return np.divide(moved, root, out=np.zeros_like(moved), where=root > 0).reshape(len(times), -1, 3)

    def surface(self, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the surface of the whole bar, displaced by [..., N, 3]: vertices [..., S, 3] and triangles [F, 3]."""
        places = (self.vertices + moved).reshape(*moved.shape[:-2], *(n + 1 for n in self.half), 3)
        mirrored = places[..., :0:-1, :] * (1.0, 1.0, -1.0)
        whole = np.concatenate([mirrored, places], axis=-2).reshape(*moved.shape[:-2], -1, 3)
        index = np.arange(whole.shape[-2]).reshape([n + 1 for n in self.cells])
        faces = []
        for axis in range(3):
            for end in (0, -1):
                quads = np.moveaxis(index, axis, 0)[end]
                a, b, c, d = quads[:-1, :-1], quads[1:, :-1], quads[1:, 1:], quads[:-1, 1:]
                flip = (end == 0) != (axis == 1)
                for triangle in ((a, b, c), (a, c, d)):
                    corners = np.stack([part.ravel() for part in triangle], 1)
                    faces.append(corners[:, ::-1] if flip else corners)
        triangles = np.concatenate(faces)
        used, numbers = np.unique(triangles, return_inverse=True)
        return whole[..., used, :], numbers.reshape(-1, 3)


def stress_and_tangent(F: np.ndarray, mu: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns first Piola-Kirchhoff stresses [E, 3, 3] of the stable neo-Hookean energy and dP/dF, [E, 3, 3, 3, 3]."""
    C = 0.5 * np.einsum("ikm,jln,ekl,emn->eij", PERMUTATION, PERMUTATION, F, F)
    J = np.einsum("eij,eij->e", F, C) / 3.0
    per = 1.0 / (np.einsum("eij,eij->e", F, F) + 1.0)
    pressure = lam * (J - 1.0) - 0.75 * mu
    shear = mu * (1.0 - per)
    stress = shear[:, None, None] * F + pressure[:, None, None] * C
    curvature = np.einsum("ikm,jln,emn->eijkl", PERMUTATION, PERMUTATION, F)
    tangent = pressure[:, None, None, None, None] * curvature + lam * np.einsum("eij,ekl->eijkl", C, C)
    tangent += np.einsum("e,eij,ekl->eijkl", 2.0 * mu * per**2, F, F)
    tangent += np.einsum("e,ik,jl->eijkl", shear, np.eye(3), np.eye(3))
    return stress, tangent
