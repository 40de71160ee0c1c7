"""All parts of the state."""

from gradsim.simulate.state.anchors import NODE_ANCHORS, PAIR_ANCHORS, RIGID_ANCHORS
from gradsim.simulate.state.articulated import JOINTS
from gradsim.simulate.state.nodes import NODES
from gradsim.simulate.state.part import StatePart
from gradsim.simulate.state.pendulum import PENDULA
from gradsim.simulate.state.rigid import RIGID_BODIES

STATE_PARTS: tuple[StatePart, ...] = (NODES, RIGID_BODIES, PENDULA, JOINTS, NODE_ANCHORS, RIGID_ANCHORS, PAIR_ANCHORS)
