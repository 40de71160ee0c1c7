"""control(): throws that lead to what a picture shows, and how the search is told of, kept and broken off."""

import json

import numpy as np
import pytest
import torch

import gradsim as gs

VELOCITY = torch.tensor([1.2, 0.9, -0.3], dtype=torch.float64)
SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
TIME = {"frames": 5, "fps": 5, "substeps": 4}
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
def picture() -> torch.Tensor:
    scene = thrown(VELOCITY)
    return gs.render(scene, gs.simulate(scene, **TIME), SIZE, alpha=True)[-1]


def miss(plan_or_reached) -> float:
    values = getattr(plan_or_reached, "best", plan_or_reached).values
    return float((values["cube.velocity"] - VELOCITY).norm())


@pytest.mark.parametrize("channels", [slice(3, 4), slice(0, 3), slice(0, 4)], ids=["silhouette", "colours", "both"])
def test_a_picture_tells_the_throw(picture, channels):
    plan = gs.control(thrown(), picture[..., channels], **TIME)
    assert miss(plan) < 1e-9
    assert not plan.scene.unknowns
    seen = gs.render(plan.scene, plan.trajectory, SIZE, alpha=True)[-1]
    torch.testing.assert_close(seen, picture, rtol=0, atol=1e-7)


def test_several_starts_and_goals(picture):
    aside = torch.tensor([torch.nan, torch.nan, -0.3], dtype=torch.float64)
    ahead = gs.GoalState({"cube.velocity": aside}, frames=[0])
    plan = gs.control(thrown(), [gs.GoalImage(picture), ahead], starts=3, seed=1, **TIME)
    assert miss(plan) < 1e-9
    assert len(plan.goals) == 2


def test_a_policy_is_found_by_its_gradient():
    class Push(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.force = torch.nn.Parameter(torch.zeros(3))

        def forward(self, t):
            return self.force.expand(len(t), 3)

    sheet = gs.Cloth("sheet", gs.meshes.grid(0.5, 2), mass=0.5, material=gs.Membrane(mu=20.0, lam=20.0))
    scene = gs.Scene([sheet], gravity=(0.0, 0.0, 0.0))
    policy, there = Push(), torch.tensor([0.3, 0.2, 0.0], dtype=torch.float64)
    goal = gs.GoalState({"sheet.position": there})
    stages = [(gs.Blur(), gs.LBFGS(iterations=20))]
    plan = gs.control(scene, goal, {"sheet.force": policy}, frames=3, fps=2, substeps=16, stages=stages)
    torch.testing.assert_close(plan.trajectory["sheet"].position[-1], there, rtol=0, atol=1e-5)
    assert float(policy.force.detach().abs().max()) == 0.0  # a copy was trained
    force = plan.policies["sheet.force"].force.detach()
    torch.testing.assert_close(force, there, rtol=0.1, atol=1e-5)  # of a node: 2 m x / t^2


def test_effort_shrinks_the_control(picture):
    stages = [(gs.Moments(), gs.GaussNewton(iterations=8))]
    sizes = []
    for effort in (0.0, 0.01, 1.0):
        plan = gs.control(thrown(), picture, effort=effort, stages=stages, **TIME)
        sizes.append(float(plan.best.values["cube.velocity"].norm()))
    assert sizes[0] == pytest.approx(float(VELOCITY.norm()), rel=1e-6)
    assert sizes[0] > sizes[1] > 2 * sizes[2]


def test_best_and_last_iterate_and_a_history_over_stages(picture):
    told = []
    stages = [(gs.Moments(), gs.Adam(iterations=3)), (gs.Blur(0.1), gs.Adam(iterations=12, rate=0.5))]

    def height(trajectory):
        return trajectory["cube"].position[..., -1, 1]

    plan = gs.control(thrown(), picture, stages=stages, watch=height, progress=told.append, **TIME)
    assert [i.number for i in plan.history] == list(range(3 + 12))
    assert [i.stage for i in plan.history] == [0] * 3 + [1] * 12
    assert list(plan.history) == told
    second = [i for i in plan.history if i.stage == 1]
    least = min(second, key=lambda i: i.loss)
    assert (plan.best.number, plan.best.loss) == (least.number, least.loss)
    assert (plan.last.number, plan.last.loss) == (14, second[-1].loss)
    assert plan.best.loss < plan.last.loss  # Adam with such steps swings about the goal
    for reached in (plan.best, plan.last):
        assert reached.watched == pytest.approx(plan.history[reached.number].watched, rel=1e-12)
        assert reached.watched == pytest.approx(float(height(reached.trajectory)), rel=1e-12)
    assert plan.history[0].seconds < plan.history[-1].seconds <= plan.seconds


def test_a_plan_is_printed_and_written(picture, tmp_path):
    plan = gs.control(thrown(), picture, **TIME)
    assert "cube.velocity = [" in str(plan)
    assert str(plan).endswith("converged")
    plan.save(tmp_path / "plan")
    kept = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert kept["best"]["loss"] == plan.loss
    assert len(kept["history"]) == len(plan.history)
    arrays = np.load(tmp_path / "plan" / "control.npz")
    np.testing.assert_array_equal(arrays["cube.velocity"], plan.best.values["cube.velocity"].numpy())


def test_a_checkpoint_is_taken_up_again(picture, tmp_path):
    file = tmp_path / "places.pt"
    stages = [(gs.Moments(), gs.GaussNewton(iterations=6)), (gs.Blur(), gs.GaussNewton(iterations=6))]
    first = gs.control(thrown(), picture, stages=stages, checkpoint=file, **TIME)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["places-0.pt", "places-1.pt"]
    none = [(distance, gs.GaussNewton(iterations=0)) for distance, _ in stages]
    again = gs.control(thrown(), picture, stages=none, checkpoint=file, **TIME)
    assert again.loss == first.loss
    assert miss(again) < 1e-9


@pytest.mark.parametrize("when", [0, 2, 7])
def test_interrupting_returns_the_best_so_far(picture, when):
    stages = [(gs.Moments(), gs.Adam(iterations=3)), (gs.Blur(0.1), gs.Adam(iterations=50))]

    def progress(iterate):
        if iterate.number == when:
            raise KeyboardInterrupt

    plan = gs.control(thrown(), picture, stages=stages, progress=progress, **TIME)
    assert plan.status == "interrupted"
    assert plan.history[-1].number == plan.last.number == when
    stage = [i for i in plan.history if i.stage == plan.history[-1].stage]
    assert plan.loss == min(i.loss for i in stage)


def test_out_of_iterations_is_told_from_converged(picture):
    short = gs.control(thrown(), picture, stages=[(gs.Moments(), gs.GaussNewton(iterations=1))], starts=3, **TIME)
    assert short.status == "out of iterations"
    assert "more iterations" in short.advice
    enough = gs.control(thrown(), picture, stages=[(gs.Moments(), gs.GaussNewton())], **TIME)
    assert enough.status == "converged"


def test_what_cannot_be_searched_is_refused(picture):
    with pytest.raises(gs.InvalidInput, match=r"gs\.unknown"):
        gs.control(thrown(VELOCITY), picture, **TIME)
    with pytest.raises(gs.InvalidInput, match="effort"):
        gs.control(thrown(), picture, effort=-1.0, **TIME)
    with pytest.raises(gs.InvalidInput, match="MinimumNorm"):
        gs.control(thrown(), picture, effort=0.1, stages=[(gs.Moments(), gs.MinimumNorm())], **TIME)
    with pytest.raises(gs.InvalidInput, match="frames"):
        gs.control(thrown(), gs.GoalImage(picture, frames=[9]), **TIME)
