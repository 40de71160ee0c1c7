"""Hypothesis strategy for robot files: URDF and MJCF texts with attributes and elements changed."""

from __future__ import annotations

import re

from hypothesis import strategies as st
from tests.robustness.strategies import NUMBERS, TEXTS, changed

URDF = """<robot name="arm"><link name="base"/>
<link name="upper"><inertial><origin xyz="0 0 0.2" rpy="0.1 0 0"/><mass value="2.0"/>
<inertia ixx="0.03" iyy="0.02" izz="0.025" ixy="0.002" ixz="0" iyz="0"/></inertial>
<visual><origin xyz="0 0 0.2"/><geometry><box size="0.1 0.08 0.4"/></geometry></visual></link>
<link name="tool"><inertial><mass value="0.3"/>
<inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><cylinder radius="0.05" length="0.2"/></geometry></collision></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.5" rpy="0 0 0"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="10" velocity="5"/><dynamics damping="0.3"/></joint>
<joint name="wrist" type="prismatic"><parent link="upper"/><child link="tool"/><origin xyz="0 0 0.4"/>
<axis xyz="1 0 0"/><limit lower="-0.1" upper="0.1" effort="1" velocity="1"/></joint></robot>"""
MJCF = """<mujoco model="arm"><compiler angle="radian"/><option gravity="0 0 -9.81"/><worldbody>
<body name="trunk" pos="0 0 1" quat="1 0 0 0"><freejoint name="root"/><geom type="box" size="0.2 0.1 0.05"/>
<body name="arm" pos="0.2 0 0"><joint name="ball" type="ball" damping="0.1"/><geom type="capsule" size="0.03 0.1"/>
<body name="hand" pos="0 0 0.2"><joint name="hinge" axis="0 1 0" range="-1 1" armature="0.01" stiffness="2"/>
<inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"/></body></body></body></worldbody></mujoco>"""
VALUES = (
    *(str(number) for number in NUMBERS),
    "1 2",
    "0 0 0",
    "1 0 0 0 0",
    "0 0 0 0",
    "1e999",
    "base",
    "upper",
    "hand",
)
VALUES += ("../secret.obj", "/etc/passwd", "package://x/../../secret.stl", "mesh", "ball", "free", "slide", "true")
VALUES += tuple(text for text in TEXTS if "\x00" not in text)
ELEMENTS = (
    '<include file="../secret.xml"/>',
    '<mesh name="m" file="/etc/passwd"/>',
    "<default><joint damping='1'/></default>",
    '<joint name="more" type="hinge"/>',
    '<body><geom type="sphere" size="0.1"/></body>',
    '<link name="more"/>',
    "<plugin/>",
    "<equality/>",
)
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@st.composite
def robot_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A suffix and the content of a robot file: a valid one with a few attributes and elements changed."""
    suffix, text = draw(st.sampled_from(((".urdf", URDF), (".xml", MJCF), (".xml", URDF))))
    for _ in range(draw(st.integers(0, 3))):
        found = draw(st.sampled_from(list(ATTRIBUTE.finditer(text)) or [re.match("", text)]))
        assert found is not None
        change = draw(st.sampled_from(("value", "value", "value", "delete", "insert", "repeat")))
        if change == "value" and found[0]:
            value = draw(st.sampled_from(VALUES)).translate({ord('"'): "", ord("<"): "", ord("&"): ""})
            text = f'{text[: found.start()]}{found[1]}="{value}"{text[found.end() :]}'
        elif change == "delete":
            text = text[: found.start()] + text[found.end() :]
        else:
            ends = [match.end() for match in re.finditer(">", text)]
            place = draw(st.sampled_from(ends or [0]))
            piece = draw(st.sampled_from(ELEMENTS)) if change == "insert" else text[found.start() : place]
            text = text[:place] + piece + text[place:]
    content = text.encode(errors="replace")
    return suffix, draw(changed(content)) if draw(st.integers(0, 5)) == 0 else content
