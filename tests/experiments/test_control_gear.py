"""The gear: its declaration, and progress towards a goal image that does not overlap the start."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.compare.distances import Cumulative
from gradsim.experiments.control import gear
from gradsim.experiments.control.task import Method
from gradsim.fit.optimizers import Adam


def test_the_mesh_is_that_of_the_paper():
    mesh = gs.meshes.tet_gear()
    assert (len(mesh.vertices), len(mesh.tets)) == (480, 1152)
    ring, teeth = np.pi * (1.4**2 - 1.0) * 2.0, 0.5 * np.pi * (1.85**2 - 1.4**2) * 2.0
    assert mesh.volumes.sum() == pytest.approx(ring + teeth, rel=0.01)  # chords instead of arcs


def test_tetrahedra_come_in_mirrored_pairs():
    mesh = gs.meshes.tet_gear()
    pairs = gear.mirrored(mesh)
    assert np.array_equal(np.bincount(pairs), np.full(576, 2))
    centers = mesh.vertices[mesh.tets].mean(1)
    for number in (0, 100, 575):
        a, b = centers[pairs == number]
        assert a == pytest.approx(b * (1, 1, -1), abs=1e-12)


def test_goals_depend_on_the_seed_and_lie_inside_the_image():
    images = [gear.task(seed).goals[Method.IMAGE][0].images[0, ..., 0] for seed in (0, 3)]
    centers = [(p.sum(0) * torch.arange(128)).sum() / p.sum() for p in images]
    assert centers[0] - centers[1] > 10  # x = 2.48 m and 0.02 m
    for image in images:
        edges = torch.cat([image[0], image[-1], image[:, 0], image[:, -1]])
        assert edges.max() == 0.0
        assert 0.03 < image.mean() < 0.1


def test_the_gear_at_rest_is_deformed_by_its_weight():
    vertices = gear.resting_vertices()
    assert float(vertices[:, 1].min()) == pytest.approx(0.0, abs=0.02)
    assert 1.5 < float(vertices[:, 1].mean()) < 1.75  # its radius is 1.85 m


def test_three_updates_reduce_most_of_the_error():
    short = {Method.IMAGE: [(Cumulative(), Adam(iterations=4, lr=0.2))]}
    plan = dataclasses.replace(gear.task(0), stages=short).run()
    errors = [iterate.metric for iterate in plan.history]
    assert len(errors) == 4
    assert errors[0] > 4.0
    assert errors[-1] < 1.0
    assert float(plan.last.trajectory["gear"].position[-1, 2].abs()) < 1e-3  # straight ahead
