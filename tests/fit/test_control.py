"""control(): recovery of throws from goal images; history, checkpoints and interruption of the search."""

import json

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.parameters import Parameters

VELOCITY = torch.tensor([1.2, 0.9, -0.3], dtype=torch.float64)
SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
TIME = {"frames": 5, "fps": 5, "substeps": 4, "integrator": gs.SymplecticEuler()}
SIZE = (32, 32)


def thrown(velocity=gs.unknown((0.5, 0.0, 0.0))) -> gs.Scene:
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.6),
        mass=1.0,
        position=(-0.5, 0.0, 0.0),
        velocity=velocity,
        angular_velocity=(0.5, 0.8, 0.0),
        look=gs.Look(face_colors=SIDES),
    )
    camera = gs.Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=50)
    return gs.Scene([cube], gravity=(0.0, -2.0, 0.0), camera=camera, background=(0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def image() -> torch.Tensor:
    scene = thrown(VELOCITY)
    return gs.render(scene, gs.simulate(scene, **TIME), SIZE, alpha=True)[-1]


def velocity_error(plan) -> float:
    return float((plan.best.values["cube.velocity"] - VELOCITY).norm())


@pytest.mark.parametrize("channels", [slice(3, 4), slice(0, 3), slice(0, 4)], ids=["silhouette", "colours", "both"])
def test_velocity_is_recovered_from_a_goal_image(image, channels):
    plan = gs.control(thrown(), image[..., channels], **TIME)
    assert velocity_error(plan) < 1e-9
    assert not plan.scene.unknowns
    rendered = gs.render(plan.scene, plan.trajectory, SIZE, alpha=True)[-1]
    torch.testing.assert_close(rendered, image, rtol=0, atol=1e-7)


def test_several_starts_and_goals(image):
    velocity = torch.tensor([torch.nan, torch.nan, -0.3], dtype=torch.float64)
    state = gs.GoalState({"cube.velocity": velocity}, frames=[0])
    plan = gs.control(thrown(), [gs.GoalImage(image), state], starts=3, seed=1, **TIME)
    assert velocity_error(plan) < 1e-9
    assert len(plan.goals) == 2


def test_policy_is_trained_by_its_gradient():
    class Push(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.force = torch.nn.Parameter(torch.zeros(3))

        def forward(self, t):
            return self.force.expand(len(t), 3)

    sheet = gs.Cloth("sheet", gs.meshes.grid(0.5, 2), mass=0.5, material=gs.Membrane(mu=20.0, lam=20.0))
    scene = gs.Scene([sheet], gravity=(0.0, 0.0, 0.0))
    policy, target = Push(), torch.tensor([0.3, 0.2, 0.0], dtype=torch.float64)
    goal = gs.GoalState({"sheet.position": target})
    stages = [(gs.Blur(), gs.LBFGS(iterations=20))]
    plan = gs.control(scene, goal, {"sheet.force": policy}, frames=3, fps=2, substeps=64, stages=stages)
    torch.testing.assert_close(plan.trajectory["sheet"].position[-1], target, rtol=0, atol=1e-5)
    assert float(policy.force.detach().abs().max()) == 0.0  # only a copy is trained
    force = plan.policies["sheet.force"].force.detach()
    torch.testing.assert_close(force, target, rtol=0.1, atol=1e-5)  # per node: 2 m x / t^2


def test_effort_reduces_the_control(image):
    stages = [(gs.Moments(), gs.GaussNewton(iterations=8))]
    sizes = []
    for effort in (0.0, 0.01, 1.0):
        plan = gs.control(thrown(), image, effort=effort, stages=stages, **TIME)
        sizes.append(float(plan.best.values["cube.velocity"].norm()))
    assert sizes[0] == pytest.approx(float(VELOCITY.norm()), rel=1e-6)
    assert sizes[0] > sizes[1] > 2 * sizes[2]


def test_best_and_last_iterate_and_history_over_stages(image):
    reported = []
    stages = [(gs.Moments(), gs.Adam(iterations=3)), (gs.Blur(0.1), gs.Adam(iterations=12, lr=0.5))]

    def height(trajectory):
        return trajectory["cube"].position[..., -1, 1]

    plan = gs.control(thrown(), image, stages=stages, metric=height, progress=reported.append, **TIME)
    assert [i.number for i in plan.history] == list(range(3 + 12))
    assert [i.stage for i in plan.history] == [0] * 3 + [1] * 12
    assert list(plan.history) == reported
    second = [i for i in plan.history if i.stage == 1]
    lowest = min(second, key=lambda i: i.loss)
    assert (plan.best.number, plan.best.loss) == (lowest.number, lowest.loss)
    assert (plan.last.number, plan.last.loss) == (14, second[-1].loss)
    assert plan.best.loss < plan.last.loss  # Adam with this learning rate overshoots the goal
    for evaluated in (plan.best, plan.last):
        assert evaluated.metric == pytest.approx(plan.history[evaluated.number].metric, rel=1e-12)
        assert evaluated.metric == pytest.approx(float(height(evaluated.trajectory)), rel=1e-12)
    assert plan.history[0].seconds < plan.history[-1].seconds <= plan.seconds


def test_plan_is_printed_and_saved(image, tmp_path):
    plan = gs.control(thrown(), image, **TIME)
    assert "cube.velocity = [" in str(plan)
    assert str(plan).endswith("converged")
    plan.save(tmp_path / "plan")
    saved = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert saved["best"]["loss"] == plan.loss
    assert len(saved["history"]) == len(plan.history)
    arrays = np.load(tmp_path / "plan" / "control.npz")
    np.testing.assert_array_equal(arrays["cube.velocity"], plan.best.values["cube.velocity"].numpy())


def test_search_continues_from_a_checkpoint(image, tmp_path):
    file = tmp_path / "points.pt"
    stages = [(gs.Moments(), gs.GaussNewton(iterations=6)), (gs.Blur(), gs.GaussNewton(iterations=6))]
    first = gs.control(thrown(), image, stages=stages, checkpoint=file, **TIME)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points-0.pt", "points-1.pt"]
    no_iterations = [(distance, gs.GaussNewton(iterations=0)) for distance, _ in stages]
    again = gs.control(thrown(), image, stages=no_iterations, checkpoint=file, **TIME)
    assert again.loss == first.loss
    assert velocity_error(again) < 1e-9


def test_starts_are_ranked_by_the_loss_of_the_last_stage(image):
    stages = [(gs.Moments(), gs.GaussNewton(iterations=0)), (gs.Moments(), gs.GaussNewton(iterations=1))]
    scene = thrown()
    points = Parameters(scene).sample(3, torch.Generator().manual_seed(2))
    guesses = [scene["cube"].velocity.guess, *(Parameters(scene).values(z)["cube.velocity"].numpy() for z in points)]
    single = [gs.control(thrown(gs.unknown(guess)), image, stages=stages, **TIME) for guess in guesses]
    first, final = ([plan.history[k].loss for plan in single] for k in (0, -1))
    assert np.argmin(first) != np.argmin(final)
    plan = gs.control(thrown(), image, stages=stages, starts=4, seed=2, **TIME)
    assert plan.loss < 1e-3 * final[int(np.argmin(first))]


def test_minimum_norm_resumes_from_a_checkpoint_of_several_starts(image, tmp_path):
    file = tmp_path / "points.pt"
    first = gs.control(
        thrown(), image, stages=[(gs.Moments(), gs.MinimumNorm(iterations=2))], starts=3, checkpoint=file, **TIME
    )
    again = gs.control(
        thrown(), image, stages=[(gs.Moments(), gs.MinimumNorm(iterations=0))], starts=3, checkpoint=file, **TIME
    )
    assert again.loss == pytest.approx(first.loss, rel=1e-6, abs=1e-20)


@pytest.mark.parametrize("when", [0, 2, 7])
def test_interrupting_returns_the_best_so_far(image, when):
    stages = [(gs.Moments(), gs.Adam(iterations=3)), (gs.Blur(0.1), gs.Adam(iterations=50))]

    def progress(iterate):
        if iterate.number == when:
            raise KeyboardInterrupt

    plan = gs.control(thrown(), image, stages=stages, progress=progress, **TIME)
    assert plan.status == "interrupted"
    assert plan.history[-1].number == plan.last.number == when
    stage = [i for i in plan.history if i.stage == plan.history[-1].stage]
    assert plan.loss == min(i.loss for i in stage)


def test_out_of_iterations_and_converged_are_distinguished(image):
    short = gs.control(thrown(), image, stages=[(gs.Moments(), gs.GaussNewton(iterations=1))], starts=3, **TIME)
    assert short.status == "out of iterations"
    assert "more iterations" in short.advice
    enough = gs.control(thrown(), image, stages=[(gs.Moments(), gs.GaussNewton())], **TIME)
    assert enough.status == "converged"


def test_invalid_arguments(image):
    with pytest.raises(gs.InvalidInput, match=r"gs\.unknown"):
        gs.control(thrown(VELOCITY), image, **TIME)
    with pytest.raises(gs.InvalidInput, match="effort"):
        gs.control(thrown(), image, effort=-1.0, **TIME)
    with pytest.raises(gs.InvalidInput, match="MinimumNorm"):
        gs.control(thrown(), image, effort=0.1, stages=[(gs.Moments(), gs.MinimumNorm())], **TIME)
    with pytest.raises(gs.InvalidInput, match="frames"):
        gs.control(thrown(), gs.GoalImage(image, frames=[9]), **TIME)
