"""The distillation demo for real, cut short: nine teachers on two devices, and what its check finds."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
from compose.demo.distillation import requests
from compose.demo.mopd import Scale, problems, run_mopd
from compose.demo.outcome import Batch, Outcome
from compose.demo.summary import Summary
from compose.demo.teachers_list import NAMES

pytestmark = [NEEDS_TORCH, pytest.mark.timeout(400)]


def test_a_short_demo_gives_the_answers_of_teachers_that_were_never_paged(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    code = run_mopd(scale=Scale(trajectories=24, seconds=1.0), seed=1, output=tmp_path, console=console)
    assert isinstance(console.file, io.StringIO)
    assert code == 0, console.file.getvalue()
    summary = Summary.model_validate_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert summary.tangram.n == summary.static.n == 24
    assert (summary.tangram.resources["gpu"].capacity, summary.static.resources["gpu"].capacity) == (2, 9)
    assert summary.tangram.page_ins >= len({one.teacher for one in requests(24, 1, 1.0)})


def test_the_batch_asks_every_teacher_and_is_the_same_for_a_seed() -> None:
    batch = requests(120, 0, 20.0)
    assert batch == requests(120, 0, 20.0)
    assert {one.teacher for one in batch} == set(NAMES)
    assert max(one.at for one in batch) == 20.0


def test_a_wrong_answer_and_a_failed_request_are_problems() -> None:
    batch = Batch(outcomes=[Outcome(number=0), Outcome(number=1, error="NodeLost: gone")], reports=[], wall_s=1.0)
    found = problems(batch, {0: [0.5]}, [[0.25], [0.75]])
    assert found == ["trajectory 1: NodeLost: gone", "trajectory 0: [0.5] instead of [0.25]"]
