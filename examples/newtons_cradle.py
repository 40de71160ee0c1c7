"""Newton's cradle: five balls of steel, one of which hits the other four, and its gradient.

The balls are 1 mm apart. Without loss the last one takes over the momentum of the first. With a restitution below 1 it
leaves with ((1 + e) / 2)^4 of the speed, and so does the derivative of its speed with respect to e follow.
"""

import torch

import gradsim as gs


def last_speed(restitution: torch.Tensor) -> torch.Tensor:
    """Speed of the last ball after the impacts [m/s]."""
    contact = gs.Contact(ke=1e6, delta=1e-5, mu=0.0, restitution=restitution)
    places = [-0.15, 0.0, 0.101, 0.202, 0.303]
    balls = [
        gs.Ball(
            f"ball_{k}",
            radius=0.05,
            density=7800.0,
            position=(x, 0.0, 0.0),
            velocity=(0.0 if k else 1.0, 0.0, 0.0),
            contact=contact,
        )
        for k, x in enumerate(places)
    ]
    scene = gs.Scene(balls, gravity=(0.0, 0.0, 0.0))
    return gs.simulate(scene, frames=2, fps=5.0, substeps=8000)["ball_4"].velocity[..., -1, 0]


e = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
speed = last_speed(e)
speed.backward()
expected, slope = ((1 + 0.9) / 2) ** 4, 2 * ((1 + 0.9) / 2) ** 3
print(f"speed of the last ball: {speed.item():.4f} m/s, expected {expected:.4f}")
print(f"its derivative with respect to the restitution: {e.grad.item():.4f} m/s, expected {slope:.4f}")
assert abs(speed.item() / expected - 1) < 0.01
assert abs(e.grad.item() / slope - 1) < 0.02
