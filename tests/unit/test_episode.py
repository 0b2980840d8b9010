"""The plan of a demo trajectory."""

from __future__ import annotations

from compose.demo.codebase import project_files
from compose.demo.episode import SCRIPT, Pace, draw_episodes


def test_every_episode_contains_the_script_in_order() -> None:
    for episode in draw_episodes(20, seed=1, pace=Pace()):
        steps = iter(step.kind for step in episode)
        assert all(kind in steps for kind in SCRIPT if kind is not None)
        assert [step.targets for step in episode if step.kind == "suite" and step.targets == ("tests",)] == [
            ("tests",)
        ] * 2


def test_the_edit_lies_between_the_two_full_runs() -> None:
    for episode in draw_episodes(20, seed=2, pace=Pace()):
        order = [step.kind for step in episode if step.kind == "edit" or step.targets == ("tests",)]
        assert order == ["suite", "edit", "suite"]


def test_gaps_and_calls_are_cut() -> None:
    pace = Pace(turns=12, time_scale=5.0, longest_gap=2.0, longest_call=0.5)
    steps = [step for episode in draw_episodes(20, seed=3, pace=pace) for step in episode]
    assert max(step.gap for step in steps) == 2.0
    calls = [call for step in steps for call in step.calls]
    assert calls
    assert all(call.duration <= 0.5 and call.cores <= 1 for call in calls)


def test_the_workload_brings_its_turns_and_no_more_than_asked() -> None:
    scripted = sum(kind is not None for kind in SCRIPT)
    lengths = [len(episode) for episode in draw_episodes(50, seed=4, pace=Pace(turns=6))]
    assert max(lengths) == scripted + 6
    assert min(lengths) > scripted


def test_every_step_acts_and_reads_only_what_exists() -> None:
    files = project_files()
    for episode in draw_episodes(20, seed=5, pace=Pace()):
        for step in episode:
            assert bool(step.targets) != bool(step.calls)
            if step.kind in ("read", "edit"):
                assert set(step.targets) <= set(files)


def test_the_same_seed_plans_the_same() -> None:
    assert draw_episodes(3, 9, Pace()) == draw_episodes(3, 9, Pace())
    assert draw_episodes(3, 9, Pace()) != draw_episodes(3, 10, Pace())
