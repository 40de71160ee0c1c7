"""A quadruped from an MJCF file drops from a few centimetres and stands on its feet, held by motors."""

import tempfile
from pathlib import Path

import torch

import gradsim as gs

LEG = """<body name="{name}_thigh" pos="{x} {y} 0"><joint name="{name}_hip"/>
  <geom type="capsule" fromto="0 0 0 -0.06 0 -0.15" size="0.018" mass="0.25"/>
  <body name="{name}_shank" pos="-0.06 0 -0.15"><joint name="{name}_knee"/>
    <geom type="capsule" fromto="0 0 0 0.06 0 -0.15" size="0.012" mass="0.1"/>
    <geom type="sphere" pos="0.06 0 -0.15" size="0.02" mass="0.03" rgba="0.1 0.1 0.1 1"/></body></body>"""
PLACES = {"lf": (0.18, 0.1), "rf": (0.18, -0.1), "lh": (-0.18, 0.1), "rh": (-0.18, -0.1)}
DOG = f"""<mujoco model="dog"><default><joint axis="0 1 0" damping="0.05" armature="0.003"/></default>
<worldbody><body name="trunk" pos="0 0 0.36"><freejoint name="root"/>
  <geom type="box" size="0.22 0.07 0.04" mass="3.0" rgba="0.8 0.6 0.2 1"/>
  {"".join(LEG.format(name=name, x=x, y=y) for name, (x, y) in PLACES.items())}</body></worldbody></mujoco>"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "dog.xml")
    file.write_text(DOG)
    robot = gs.load_robot(file, collides=True, contact=gs.Contact(ke=2e4, kd=20.0, mu=0.8))
holding = {}
for joint, link in robot.joints.items():
    if joint != "root":  # motors hold the angles of the file
        holding |= {f"dog.links.{link}.joint.gain": 60.0, f"dog.links.{link}.joint.rate_gain": 1.0}
scene = gs.Scene([robot.body], ground=gs.Ground()).with_values(holding)

motion = gs.simulate(scene, frames=46, fps=30, substeps=64)["dog"]
feet = [name for name in robot.body.links if name.endswith("shank_shape_2")]
heights = torch.stack([motion.link(name).position[-1, 1] for name in feet])
trunk = motion.link("trunk")
print(f"trunk at {float(trunk.position[-1, 1]):.3f} m, moving at {float(trunk.velocity[-1].norm()):.4f} m/s")
print("centres of the feet at", ", ".join(f"{1000 * float(y):.1f} mm" for y in heights))
assert len(feet) == 4
assert 0.25 < float(trunk.position[-1, 1]) < 0.34
assert float(trunk.velocity[-1].norm()) < 0.02
assert ((heights > 0.017) & (heights < 0.0201)).all()
