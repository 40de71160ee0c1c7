"""Can a soft body learn to stop where it is asked to? A network that sees its state, trained through the simulator.

Waves of growth run along a soft block, forwards or backwards, and it crawls. Once a frame a small network sees how far
the block has to go and how fast it is, and sets the strength of both waves. It learns from random goals on either side,
16 worlds at once, by the gradient through the closed loop: every contact, and all that it saw before.
"""

import math

import torch

import gradsim as gs

mesh = gs.meshes.tet_box((0.6, 0.2, 0.2), (6, 1, 1))
along = torch.tensor(mesh.vertices[mesh.tets].mean(1)[:, 0], dtype=torch.float32) / 0.4  # in waves, [30]
material = gs.NeoHookean.from_young(4e4, 0.3, damping=50.0)
block = gs.Soft("block", mesh, density=500.0, material=material, position=(0.0, 0.1, 0.0))
scene = gs.Scene([block], gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01))


class Crawl(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Growth of each element [..., 30], of the distance left, the speed and the time [..., 3]."""
        turns = torch.stack([3.0 * seen[..., 2:] - along, 3.0 * seen[..., 2:] + along], -1)
        return 0.4 * torch.tanh((torch.sin(2 * math.pi * turns) * self.net(seen[..., None, :2])).sum(-1))


def crawled(policy: Crawl, goals: torch.Tensor) -> torch.Tensor:
    """How far the block comes in 2 s [m], a world for each goal, [B]."""

    def observe(trajectory: gs.Trajectory) -> torch.Tensor:
        left = goals - trajectory["block"].position[..., -1, 0]
        speed = trajectory["block"].velocity[..., -1, 0].expand_as(left)
        return torch.stack([20.0 * left, speed, trajectory.time[-1].expand_as(left)], -1)

    controls = {"block.actuation": gs.Feedback(policy, observe)}
    moved = gs.rollout(scene, controls, frames=61, fps=30, substeps=32, dtype=torch.float32)
    return moved["block"].position[..., -1, 0]


torch.manual_seed(1)
goals = (0.05 + 0.1 * torch.rand(20, 16)) * torch.tensor([-1.0, 1.0]).repeat(8)  # [m]
policy = Crawl()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.03)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(goals))
for asked in goals:
    loss = (crawled(policy, asked) / asked - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    schedule.step()
unseen = torch.cat([torch.linspace(-0.15, -0.05, 10), torch.linspace(0.05, 0.15, 10)])
miss = (crawled(policy, unseen) / unseen - 1.0).abs().detach()
print(f"{int((miss < 0.1).sum())} of 20 unseen goals within 10 %, the worst missed by {100 * miss.max():.0f} %")
assert int((miss < 0.1).sum()) >= 16
