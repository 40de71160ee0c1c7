"""Interpolation of a motion between its frames: cubic Hermite, for rotations too.

A cubic through positions and velocities at both ends of an interval has an error of fourth order in its length, and its
derivative one of third order. Both are continuous from interval to interval.
"""

from __future__ import annotations

import torch

from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape
from gradsim.scene.rotation import multiply, rotate, rotation_by

MARGIN = 1e-9  # of the interval between two frames, by which rounding may move a time beyond the limits


class Sampling:
    """The interval between two frames, and the weights of both frames, for each of some times.

    Outside the frames a motion continues with the mean acceleration of the nearest interval, which is exact for uniform
    acceleration as well, and changes less than the cubic if the velocity jumps in that interval.

    Args:
        frame_times: Times of the frames [s], [T], increasing.
        times: Times to interpolate at [s], [..., T'], up to one interval beyond the first and the last frame.
    """

    def __init__(self, frame_times: torch.Tensor, times: torch.Tensor):
        _check_times(frame_times, times)
        inner = frame_times[1:-1]
        index = torch.searchsorted(inner, times.detach().contiguous(), right=True)  # of the first frame, [..., T']
        start, span = frame_times[index], frame_times.diff()[index]
        rows = index.view(-1, index.shape[-1])
        self.index = rows[0] if bool((rows == rows[0]).all()) else index  # [T'] if equal in all worlds
        self.consecutive = self.index.ndim == 1 and bool((self.index.diff() == 1).all())
        self.elapsed = times - start  # since the first frame [s], [..., T']
        self.span = span  # [s], [..., T']
        self.weights, self.rates = _weights(self.elapsed / span)

    def ends(self, x: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a quantity at both ends of the interval of each time.

        Args:
            x: The quantity at the frames; time is dimension `axis`, counted from the end, [..., T, (-axis - 1) more].
        """
        index = self.index
        if self.consecutive:  # such as those of a constant offset: no copy
            first, count = int(index[0]), len(index)
            return x.narrow(axis, first, count), x.narrow(axis, first + 1, count)
        if index.ndim == 1:
            return x.index_select(axis, index), x.index_select(axis, index + 1)
        rest, frames = x.shape[x.ndim + axis + 1 :], x.shape[axis]
        worlds = torch.broadcast_shapes(x.shape[: x.ndim + axis], index.shape[:-1])
        rows = torch.arange(worlds.numel(), device=index.device).view(*worlds, 1) * frames + index
        flat, rows = x.expand(*worlds, frames, *rest).reshape(-1, *rest), rows.view(-1)
        shape = (*worlds, index.shape[-1], *rest)
        return flat.index_select(0, rows).view(shape), flat.index_select(0, rows + 1).view(shape)

    def cubic(
        self, a: torch.Tensor, va: torch.Tensor, b: torch.Tensor, vb: torch.Tensor, axis: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns value and time derivative of the cubic from a with derivative va to b with derivative vb."""
        below = [1] * (-axis - 1)

        def combined(weights: tuple[torch.Tensor, ...], scale: torch.Tensor) -> torch.Tensor:
            wa, wb, wva, wvb = ((w * s).view(*w.shape, *below) for w, s in zip(weights, scale, strict=True))
            return torch.addcmul(torch.addcmul(torch.addcmul(wa * a, wb, b), wva, va), wvb, vb)

        one, span = torch.ones_like(self.span), self.span
        value = combined(self.weights, torch.stack([one, one, span, span]))
        return value, combined(self.rates, torch.stack([1 / span, 1 / span, one, one]))

    def interpolate(self, x: torch.Tensor, v: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a quantity and its time derivative at the times, from both at the frames.

        Args:
            x: The quantity at the frames; time is dimension `axis`, counted from the end.
            v: Its time derivative, of the same shape.
        """
        (a, b), (va, vb) = self.ends(x, axis), self.ends(v, axis)
        return self.cubic(a, va, b, vb, axis)

    def interpolate_rotation(self, q: torch.Tensor, spin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns rotation [..., T', 4] and angular velocity [rad/s], [..., T', 3], at the times.

        The rotation is that of the interval's mean angular velocity, exact where it is constant, times a small one
        whose quaternion is interpolated by a cubic and normalized.

        Args:
            q: Rotations at the frames as unit quaternions, [..., T, 4].
            spin: Angular velocities at the frames, in world axes [rad/s], [..., T, 3].
        """
        (qa, qb), (spin_a, spin_b) = self.ends(q, -2), self.ends(spin, -2)
        mean = (spin_a + spin_b) / 2
        first = multiply(rotation_by(mean * self.elapsed[..., None]), qa)
        small = multiply(qb, _inverse(multiply(rotation_by(mean * self.span[..., None]), qa)))  # at the second frame
        small = torch.where(small[..., 3:] < 0, -small, small)  # both signs are the same rotation
        identity = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=q.dtype, device=q.device).expand_as(small)
        # With q = p e and e' = mean e / 2, q' = spin q / 2 becomes p' = (spin p - p mean) / 2.
        rate_a = _pure(spin_a - mean) / 2
        rate_b = (multiply(_pure(spin_b), small) - multiply(small, _pure(mean))) / 2
        p, rate = self.cubic(identity, rate_a, small, rate_b, -2)
        squared = (p * p).sum(-1, keepdim=True)
        unit = p * squared.rsqrt()
        relative = 2 * multiply(rate, _inverse(p))[..., :3] / squared
        return multiply(unit, first), relative + rotate(unit, mean)


def _weights(s: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Returns the weights of both ends and of their derivatives, and the derivatives of all four weights.

    Args:
        s: Fraction of the interval, 0 at its first frame and 1 at its second, [..., T'].
    """
    before, after, u = s < 0, s > 1, s - 1

    def piecewise(below: torch.Tensor, inside: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
        return torch.where(before, below, torch.where(after, above, inside))

    zero, one, half = torch.zeros_like(s), torch.ones_like(s), s * s / 2
    late = u * u / 2
    wb = piecewise(zero, s * s * (3 - 2 * s), one)
    rb = piecewise(zero, 6 * s * (1 - s), zero)
    values = (1 - wb, wb, piecewise(s - half, s * u * u, -late), piecewise(half, s * s * u, u + late))
    return values, (-rb, rb, piecewise(1 - s, u * (3 * s - 1), -u), piecewise(s, s * (3 * s - 2), s))


def _check_times(frame_times: torch.Tensor, times: torch.Tensor) -> None:
    if frame_times.ndim != 1 or len(frame_times) < 2:
        found = f"a trajectory with times of shape {tuple(frame_times.shape)}"
        raise InvalidInput("sample", found, "needs at least two frames at the same times in all worlds")
    spans = frame_times.diff()
    if not bool((spans > 0).all()):
        raise InvalidInput("sample", "a trajectory", "whose frames are not in the order of time")
    if times.ndim < 1 or times.numel() == 0:
        raise WrongShape("times", f"shape {tuple(times.shape)}", "must be [T'] or [..., T'] with at least one time [s]")
    least, most = (float(t) for t in times.detach().aminmax())
    low = float(frame_times[0] - (1 + MARGIN) * spans[0])
    high = float(frame_times[-1] + (1 + MARGIN) * spans[-1])
    valid = f"must lie at most one frame beyond the frames, in [{low:.6g}, {high:.6g}] s: simulate more frames"
    if not bool(times.detach().isfinite().all()):
        raise NotFinite("times", "NaN or infinity", valid)
    for time in (least, most):
        if not low <= time <= high:
            raise OutOfRange("times", f"{time:.6g}", valid)


def _pure(x: torch.Tensor) -> torch.Tensor:
    """Returns vectors [..., 3] as quaternions with zero real part, [..., 4]."""
    return torch.nn.functional.pad(x, (0, 1))


def _inverse(q: torch.Tensor) -> torch.Tensor:
    """Returns the conjugates of quaternions [..., 4], the inverses of unit ones."""
    return torch.cat([-q[..., :3], q[..., 3:]], -1)
