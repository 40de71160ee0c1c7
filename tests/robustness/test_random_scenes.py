"""The random scenes of the soak and of the sanitizers need everything that is native code."""

from __future__ import annotations

from random import Random

import pytest
from tests.robustness.random_scenes import KINDS, random_integrator, random_scene

import gradsim as gs
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.forces.registry import FORCE_FAMILIES
from gradsim.simulate.state.registry import STATE_PARTS

COUNT = 250


@pytest.fixture(scope="module")
def topologies():
    """Topologies of random scenes, each with an integrator."""
    found = []
    for number in range(COUNT):
        chance = Random(f"coverage {number}")
        scene = random_scene(chance)
        found.append((compile_scene(scene).topology, random_integrator(chance, scene)))
    return found


def test_all_forces_and_parts_of_the_state_occur(topologies):
    found = {name for topology, _ in topologies for name in topology.families}
    assert {family.name for family in FORCE_FAMILIES} <= found
    assert {part.name for part in STATE_PARTS} <= found


def test_all_integrators_occur_with_nodes_and_all_explicit_ones_with_rigid_bodies(topologies):
    def kinds(part):
        return {type(integrator) for topology, integrator in topologies if part in topology.state_layout}

    explicit = {gs.SymplecticEuler, gs.Verlet, gs.Midpoint, gs.RungeKutta4}
    assert kinds("node") == explicit | {gs.ImplicitMidpoint}
    assert kinds("rigid") >= explicit
    assert kinds("joint") == explicit - {gs.Verlet}


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_scenes_of_a_kind_differ(kind):
    scenes = [gs.Scene(**kind(Random(number), 1.0)) for number in range(5)]
    values = [" ".join(f"{path} {value}" for path, value, _ in scene.quantities()) for scene in scenes]
    assert len(set(values)) == len(scenes)
