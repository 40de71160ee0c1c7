"""Closed-loop control: a network observes the state of a soft body and is trained through the simulator.

Travelling waves of actuation, forwards or backwards, make a soft block crawl. Once per frame a small network observes
the distance to its goal and its velocity, and sets the amplitudes of both waves. It is trained on random goals on both
sides, 16 worlds at once, by the gradient through the closed loop, including contacts and earlier observations.
"""

import math

import torch

import gradsim as gs

mesh = gs.meshes.tet_box((0.6, 0.2, 0.2), (6, 1, 1))
along = torch.tensor(mesh.vertices[mesh.tets].mean(1)[:, 0], dtype=torch.float32) / 0.4  # position in wavelengths, [30]
material = gs.NeoHookean.from_young(4e4, 0.3, damping=50.0)
block = gs.Soft("block", mesh, density=500.0, material=material, position=(0.0, 0.1, 0.0))
scene = gs.Scene([block], gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01))


class Crawl(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, observed: torch.Tensor) -> torch.Tensor:
        """Actuation of the elements [..., 30] from scaled distance, velocity and time [..., 3]."""
        phase = torch.stack([3.0 * observed[..., 2:] - along, 3.0 * observed[..., 2:] + along], -1)
        return 0.4 * torch.tanh((torch.sin(2 * math.pi * phase) * self.net(observed[..., None, :2])).sum(-1))


def final_position(policy: Crawl, goals: torch.Tensor) -> torch.Tensor:
    """Position along x after 2 s [m], one world per goal, [B]."""

    def observe(trajectory: gs.Trajectory) -> torch.Tensor:
        distance = goals - trajectory["block"].position[..., -1, 0]
        velocity = trajectory["block"].velocity[..., -1, 0].expand_as(distance)
        return torch.stack([20.0 * distance, velocity, trajectory.time[-1].expand_as(distance)], -1)

    controls = {"block.actuation": gs.Feedback(policy, observe)}
    trajectory = gs.rollout(scene, controls, frames=61, fps=30, substeps=32, dtype=torch.float32)
    return trajectory["block"].position[..., -1, 0]


torch.manual_seed(1)
goals = (0.05 + 0.1 * torch.rand(20, 16)) * torch.tensor([-1.0, 1.0]).repeat(8)  # [m]
policy = Crawl()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.03)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(goals))
for batch in goals:
    loss = (final_position(policy, batch) / batch - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    schedule.step()
test_goals = torch.cat([torch.linspace(-0.15, -0.05, 10), torch.linspace(0.05, 0.15, 10)])
errors = (final_position(policy, test_goals) / test_goals - 1.0).abs().detach()
print(f"{int((errors < 0.1).sum())} of 20 test goals reached within 10 %; largest error {100 * errors.max():.0f} %")
assert int((errors < 0.1).sum()) >= 16
