"""The render benchmark: its scenes, and the agreement of its peers' images and gradients."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
import torch

import gradsim as gs
from benchmarks.deodr_video import DeodrVideo
from benchmarks.render import FrameCounts, FrameTime, deodr_difference, measure_render
from benchmarks.render_internals import rasterize, saved_bytes
from benchmarks.render_report import requirements
from benchmarks.render_scenes import MESHES, CubeAndSphere, RasterizerRun, rotating_mesh

SHORT = FrameCounts(exact=2, softras=2, threads=9, video=3, worlds=2)


@pytest.fixture(scope="module")
def results():
    return measure_render((12,), pixels=(16, 24), peer=False, seconds=0.0, frame_counts=SHORT)


class TestResults:
    def test_every_size_is_measured(self, results):
        assert [(row.faces, row.pixels) for row in results.exact] == [(12, 16), (12, 24)]
        assert [(row.faces, row.pixels) for row in results.threads] == [(12, 24)]
        assert [(row.faces, row.pixels) for row in results.softras] == [(12, 24)]
        assert results.exact[0].deodr is results.exact[0].ratio is results.exact[0].difference is None

    def test_threads_do_not_change_images_and_gradients(self, results):
        assert all(row.equal for row in results.threads)

    def test_the_number_of_threads_is_restored(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            measure_render((), pixels=(8,), peer=False, seconds=0.0, frame_counts=SHORT)
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)

    def test_requirements_apply_to_the_worst_size(self, results):
        fast = dataclasses.replace(
            results.exact[0],
            exact64=FrameTime(1.0, 2.0),
            exact32=FrameTime(0.5, 1.0),
            deodr=FrameTime(1.0, 1.0),
        )
        slow = dataclasses.replace(fast, deodr=FrameTime(1.0, 0.9))
        wide = dataclasses.replace(fast, exact32=FrameTime(0.5, 2.5))
        threads = dataclasses.replace(results.threads[0], one=1.7, two=1.0)
        softras = dataclasses.replace(results.softras[0], softras=FrameTime(1.0, 1.0), plain=FrameTime(8.0, 9.0))

        def met(**changes):
            rows = {"exact": (fast,), "threads": (threads,), "softras": (softras,), **changes}
            return [requirement.met for requirement in requirements(dataclasses.replace(results, **rows))]

        assert met() == [True] * 5
        assert met(exact=(fast, slow)) == [False, True, True, True, True]
        assert met(exact=(fast, wide)) == [True, False, True, True, True]
        assert met(threads=(threads, dataclasses.replace(threads, two=1.01))) == [True, True, False, True, True]
        assert met(threads=(threads, dataclasses.replace(threads, equal=False))) == [True, True, True, False, True]
        assert met(softras=(softras, dataclasses.replace(softras, plain=FrameTime(7.9, 9.0))))[4] is False

    def test_unknown_size_is_an_error(self):
        with pytest.raises(gs.InvalidInput, match="sizes = 300: must be among 12, 320"):
            measure_render((300,))

    def test_empty_images_are_an_error(self):
        with pytest.raises(gs.InvalidInput, match=r"pixels = \(0,\): must be one or more whole numbers"):
            measure_render((12,), pixels=(0,))

    def test_the_note_names_the_extra_of_a_missing_deodr(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "deodr", None)
        results = measure_render((), pixels=(8,), seconds=0.0, frame_counts=SHORT)
        assert "pip install 'gradsim[bench]'" in str(results.note)


class TestScenes:
    @pytest.mark.parametrize(("size", "faces"), [(12, 12), (320, 320), (2000, 1920), (20000, 20160)])
    def test_sizes(self, size, faces):
        assert len(MESHES[size]().faces) == faces

    def test_a_mesh_rotates_inside_the_image_with_colours_at_its_vertices(self):
        triangles = rotating_mesh(320, 32, 5)
        pixels = triangles.vertices[..., :2] / triangles.vertices[..., 2:]
        assert pixels.min() > 0
        assert pixels.max() < 32
        assert torch.equal(triangles.connectivity.corners, triangles.connectivity.faces)
        assert 0.1 < (pixels[1:] - pixels[:-1]).norm(dim=-1).amax() < 1.0  # pixels a frame

    def test_single_precision_agrees_with_double(self):
        triangles = rotating_mesh(320, 32, 2)
        double, single = (RasterizerRun(gs.Exact(), triangles, 32, dtype) for dtype in (torch.float64, torch.float32))
        for exact, rounded in zip(double.forward_backward(), single.forward_backward(), strict=True):
            assert rounded.dtype == torch.float32
            assert (rounded - exact).abs().max() < 1e-3 * exact.abs().max()

    def test_saved_memory_contains_images_front_faces_and_face_lists(self):
        image_bytes, total_bytes = saved_bytes(CubeAndSphere(5, 20, 3).render)
        pixels = 5 * 3 * 20 * 20
        assert image_bytes == 8 * 3 * pixels
        assert image_bytes + 4 * pixels + 4 * pixels <= total_bytes  # a front face and a list entry for each pixel
        assert total_bytes < 3 * image_bytes + 2**20

    def test_both_bodies_have_gradients_at_all_frames(self):
        for gradient in CubeAndSphere(3, 24, 2).forward_backward():
            assert gradient.shape == (2, 3, 3)
            assert (gradient.abs().sum(-1) > 0).all()


class TestDeodr:
    """A ratio of times is meaningful only if the images and gradients agree."""

    @pytest.fixture(autouse=True)
    def deodr(self):
        pytest.importorskip("deodr", reason="needs DEODR: pip install 'gradsim[bench]'", exc_type=ImportError)

    @pytest.mark.parametrize("size", [12, 2000])
    def test_images_and_gradients_agree(self, size):
        run = RasterizerRun(gs.Exact(), rotating_mesh(size, 64, 2), 64)
        weights = smooth_weights(2, 64)
        deodr = DeodrVideo(run.source, (64, 64), weights)
        assert deodr_difference(run, deodr) < 0.013  # 0.012 and 0.008, from the silhouettes
        deodr.forward_backward()
        deodr.forward_backward()  # must not add to the gradients of the first
        triangles = run.triangles
        images = rasterize(gs.Exact(), triangles, (64, 64), alpha=False)
        leaves = (triangles.vertices, triangles.attributes)
        vertices, colors = torch.autograd.grad(images, leaves, torch.from_numpy(weights))
        pixels = vertices[..., :2] * triangles.vertices.detach()[..., 2:]  # gradient of x, not of x w
        own = {"pixels": pixels.numpy(), "colors": colors.numpy()}
        for name, gradient in zip(own, deodr.gradients, strict=True):
            assert np.abs(gradient - own[name]).sum() < 0.2 * np.abs(own[name]).sum(), name  # 0.08 to 0.15

    def test_different_images_are_an_error(self):
        triangles = rotating_mesh(12, 64, 1)
        run = RasterizerRun(gs.Exact(), triangles, 64)
        inverted = dataclasses.replace(triangles, attributes=1.0 - triangles.attributes)
        with pytest.raises(RuntimeError, match="the images of DEODR differ by"):
            deodr_difference(run, DeodrVideo(inverted, (64, 64), run.weights.numpy()))

    def test_deodr_is_part_of_the_results(self):
        results = measure_render((12,), pixels=(32,), seconds=0.0, frame_counts=SHORT)
        (row,) = results.exact
        assert row.ratio is not None
        assert row.ratio.forward_backward == row.exact64.forward_backward / row.deodr.forward_backward
        assert len(requirements(results)) == 5


def smooth_weights(frames, pixels):
    x = np.linspace(-1.0, 1.0, pixels)
    plane = np.stack([1.0 + x[:, None] + 0 * x, 1.0 + x[None, :] + 0 * x[:, None], np.ones((pixels, pixels))], -1)
    return np.repeat(plane[None], frames, axis=0)
