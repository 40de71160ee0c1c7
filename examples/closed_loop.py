"""Can a soft body learn to stop where it is asked to? A network that sees its state, trained through the simulator.

Waves of growth run along a soft block, 5 a second, forwards or backwards, and it crawls. A small network sees once a
frame how far the block has to go and how fast it is, and sets the strength of both waves. It learns from random goals
on either side, 16 worlds at once, by the gradient through the closed loop: every contact, and all that it saw before.
Then it is asked to reach 20 goals it has not been trained on.
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
    """Growth of each element, of the distance left, the speed and the time [..., 3]."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))

    def forward(self, seen):
        phase = 3.0 * seen[..., 2:]
        waves = torch.stack([torch.sin(2 * math.pi * (phase + sign * along)) for sign in (-1, 1)], -1)
        return 0.4 * torch.tanh((waves * self.net(seen[..., None, :2])).sum(-1))


def crawled(policy, goals):
    """How far the block comes in 2 s [m], [16]."""

    def sees(trajectory):
        left = goals - trajectory["block"].position[..., -1, 0]
        speed = trajectory["block"].velocity[..., -1, 0].expand_as(left)
        return torch.stack([20.0 * left, speed, trajectory.time[-1].expand_as(left)], -1)

    controls = {"block.actuation": gs.Feedback(policy, sees)}
    moved = gs.drive(scene, controls, frames=61, fps=30, substeps=32, dtype=torch.float32)
    return moved["block"].position[..., -1, 0]


def some_goals(count):
    return (0.05 + 0.1 * torch.rand(count)) * (2 * torch.randint(2, (count,)) - 1)


if __name__=="__main__":
    import time; t=time.time(); torch.set_num_threads(1)
    torch.manual_seed(0)
    policy = Crawl(); unseen=some_goals(20)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.03)
    for step in range(41):
        goals=some_goals(16)
        miss=crawled(policy,goals)/goals-1
        loss=miss.square().mean(); optimizer.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(policy.parameters(),1.); optimizer.step()
        if step%5==0:
            with torch.no_grad(): r=crawled(policy,unseen)/unseen-1
            print(step,'%.4f'%loss.item(),(r.abs()<.1).float().mean().item(),'t %.0f'%(time.time()-t),flush=True)
    print(unseen, r)
