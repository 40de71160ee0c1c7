"""An arm pushes a box to the place that one picture shows: control through contact."""

import numpy as np

import gradsim as gs

contact = gs.Contact(ke=4e3, kd=10.0, mu=0.3)
time = {"frames": 31, "fps": 30.0, "substeps": 24}


def tray(shoulder, elbow):
    """Returns a two-link arm above a table seen from above; motors take the joints to these angles [rad]."""

    def bar(end, **joint):
        reach = {"mass": 0.4, "center": (0.15, 0.0, 0.0), "inertia": np.eye(3) * 3e-3}
        hinge = gs.Revolute((0.0, 1.0, 0.0), **joint, damping=0.1, gain=20.0, rate_gain=2.0)
        return gs.Link(hinge, **reach, look=None, mesh=gs.meshes.box(0.02), **end)

    links = {
        "upper": bar({}, angle=0.9, target=gs.Signal([0.9, shoulder, shoulder])),
        "fore": bar(
            {"parent": "upper", "position": (0.3, 0.0, 0.0)}, angle=-1.2, target=gs.Signal([-1.2, elbow, elbow])
        ),
        "hand": gs.Link(
            parent="fore", position=(0.3, 0.0, 0.0), mesh=gs.meshes.icosphere(0.04), collides=True, contact=contact
        ),
    }
    box = gs.Rigid(
        "box",
        gs.meshes.box((0.1, 0.08, 0.1)),
        mass=0.3,
        position=(0.46, 0.04, 0.0),
        look=gs.Look(color=(0.9, 0.3, 0.1)),
    )
    camera = gs.Camera(eye=(0.4, 1.6, 0.0), target=(0.4, 0.0, 0.0), up=(0.0, 0.0, -1.0), fov=40)
    arm = gs.Articulated("arm", links, position=(0.0, 0.05, 0.0))
    table = gs.Ground(ke=4e3, kd=10.0, mu=0.4, look=None)
    return gs.Scene([arm, box], table, camera=camera, background=(0.0, 0.0, 0.0))


true = tray(0.35, -0.95)
there = gs.simulate(true, **time)
picture = gs.render(true, there, (48, 48), frames=[-1], alpha=True)[0]

guess = tray(gs.unknown(0.55, low=0.0, high=1.2), gs.unknown(-1.0, low=-1.6, high=0.0))
plan = gs.control(guess, picture, **time)
print(plan)
distance = (plan.trajectory["box"].position[-1] - there["box"].position[-1]).norm()
moved = (there["box"].position[-1] - there["box"].position[0]).norm()
print(f"pushed by {100 * float(moved):.1f} cm, {1000 * float(distance):.2f} mm from the place in the picture")
assert moved > 0.05
assert distance < 1e-3
