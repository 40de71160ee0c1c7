"""Damaged and odd files beside scenes: trajectories, tables, arrays, manifests, data sets; files larger than memory."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from tests.robustness.record_files import archive, known_scene, load_record, motion, saved

import gradsim as gs
from gradsim.cli.manifest import load_manifest
from gradsim.cli.view import fitted_values
from gradsim.footage.lens_files import load_lens
from gradsim.scene.array_files import read_array, read_arrays

LARGE = 1 << 42  # of a sparse file, which takes no space on the disk [bytes]
STATES = np.zeros((3, 1, 3))
TRAJECTORIES = {
    "no archive": (b"broken", "must be a .npz file of gs.save_trajectory"),
    "one array": (saved(np.zeros(3)), "must be a .npz file"),
    "cut off": (archive(motion())[:-200], "must be a .npz file"),
    "text": (archive({**motion(), "time": np.array(["a"])}), "in place of real numbers"),
    "complex numbers": (archive({**motion(), "time": np.zeros(3, complex)}), "in place of real numbers"),
    "whole times": (archive({**motion(), "time": np.arange(3)}), "has no states of a trajectory"),
    "times of another shape": (archive({**motion(), "time": np.zeros((3, 1))}), "has no states of a trajectory"),
    "no span": (archive({**motion(), "span": np.zeros(0)}), "has no states of a trajectory"),
    "fewer times": (archive({**motion(), "time": np.zeros(2)}), "needs float64, 2 times and equal batches"),
    "NaN": (archive({**motion(), "state rigid.p": np.full((3, 1, 3), np.nan)}), "rigid.p = NaN or infinity"),
    "another precision": (archive({**motion(), "state rigid.p": STATES.astype("f4")}), "rigid.p = float32"),
    "another batch": (archive({**motion(), "state rigid.p": STATES[None]}), "equal batches"),
    "a state more": (archive({**motion(), "state more": STATES}), "more = .* the scene has no such state"),
    "a state less": (archive({k: v for k, v in motion().items() if k != "state rigid.p"}), r"rigid\.p = nothing"),
}


@pytest.mark.parametrize("case", TRAJECTORIES)
def test_a_file_that_is_no_trajectory_of_the_scene_is_refused_by_name(tmp_path, case):
    content, message = TRAJECTORIES[case]
    (tmp_path / "motion.npz").write_bytes(content)
    with pytest.raises(gs.InvalidInput, match=message):
        gs.load_trajectory(tmp_path / "motion.npz", known_scene())


RECORDS = {
    "one coordinate twice": ("states.csv", b"ball.position[0],ball.position.x\n1,2\n", "two columns"),
    "component of many digits": ("states.csv", b"ball.position[" + b"9" * 5000 + b"]\n1\n", "ball.position"),
    "complex measurements": ("measured.npz", archive({"ball.position": np.ones((4, 3), complex)}), "complex128"),
    "truncated archive": ("arrays.npz", archive({"mass": np.ones(100)})[:-90], "array of numbers that NumPy saved"),
    "array instead of an archive": ("arrays.npz", saved(1.0), "array of numbers that NumPy saved"),
    "archive instead of an array": ("array.npy", archive({"mass": 1.0}), "array of numbers that NumPy saved"),
    "rate of many digits": (
        "trials.yaml",
        b"scene: scene.yaml\ntrials: [{video: video.npz, fps: 1" + b"0" * 400,
        "fps",
    ),
    "lens of many digits": ("lens.yaml", b"{size: [48, 64], fx: 1" + b"0" * 400 + b"}", "lens.yaml"),
    "manifest without columns": ("set/manifest.csv", b"name,object\n0,ball\n", "has no column split"),
    "row of too many cells": ("set/manifest.csv", b"name,object,split,video,states,scene\n,,,,,,1\n", "more cells"),
    "true value that is a text": (
        "set/manifest.csv",
        b"name,object,split,video,states,scene,mass\n0,ball,train,v,states.npz,s,heavy\n",
        "mass = 'heavy'",
    ),
    "states that are one number": ("set/states.npz", archive({"time": 1.0}), r"\[T, \.\.\.\]"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_damaged_record_is_refused_by_name(case):
    name, content, message = RECORDS[case]
    with pytest.raises(gs.InvalidInput, match=message):
        load_record((name, content + b"}]\n" if case == "rate of many digits" else content))


def test_a_small_archive_of_a_large_array_is_refused_before_it_is_inflated(tmp_path):
    file = tmp_path / "arrays.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as stored, stored.open("mass.npy", "w") as stream:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(gs.errors.OutOfMemory, match=r"arrays\.npz, an array \[1099511627776\]: would take 8\.8 TB"):
        read_arrays(file, "mass", "must be numbers")


def test_arrays_are_read_as_they_were_saved(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    for number, array in enumerate((values, np.asfortranarray(values), values.astype(">f4"), values > 2, values[:0])):
        np.save(tmp_path / "array.npy", array)
        np.savez_compressed(tmp_path / "arrays.npz", first=array, second=values[0, 0])
        for found in (
            read_array(tmp_path / "array.npy", "array", "must be numbers"),
            read_arrays(tmp_path / "arrays.npz", "array", "must be numbers", ("first",))["first"],
        ):
            assert found.dtype == array.dtype.newbyteorder("="), number
            assert np.array_equal(found, array)


LARGE_FILES = {
    "scene.yaml": gs.load_scene,
    "trials.yaml": load_manifest,
    "trials.csv": load_manifest,
    "states.csv": gs.load_states,
    "fit.json": lambda file: fitted_values(known_scene(), file),
    "lens.yaml": load_lens,
    "mesh.obj": gs.load_mesh,
    "mesh.stl": gs.load_mesh,
    "mesh.vtk": gs.load_mesh,
    "robot.urdf": gs.load_robot,
}


@pytest.mark.parametrize("name", LARGE_FILES)
def test_a_file_larger_than_memory_is_refused_before_it_is_read(tmp_path, name):
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(LARGE)
    with pytest.raises(gs.InvalidInput, match=r"of memory, of at most|bytes, of at most|is larger than"):
        LARGE_FILES[name](tmp_path / name)
