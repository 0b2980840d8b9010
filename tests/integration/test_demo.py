"""The demo for real, cut short: both runs on a whole stack with Docker sandboxes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from compose.containers import remove_containers
from compose.demo.episode import Pace
from compose.demo.main import run_demo
from compose.demo.summary import Summary
from monitoring.report import BatchReport


@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("docker_engine")
def test_a_short_demo_is_right_in_both_runs(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    short = Pace(turns=3, time_scale=0.02, longest_call=0.3)
    code = run_demo(lite=True, trajectories=3, seed=1, output=tmp_path, pace=short, console=console)
    assert isinstance(console.file, io.StringIO)
    assert code == 0, console.file.getvalue()

    summary = Summary.model_validate_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {mode: len(outcomes) for mode, outcomes in summary.outcomes.items()} == {"tangram": 3, "static": 3}
    assert (tmp_path / "act.svg").read_text(encoding="utf-8").startswith("<svg")
    assert summary.tangram.n == summary.static.n
    assert _sizes(summary.static, "run_suite") == {summary.machine["static_share"]}
    assert summary.static.resources["cpu"].granted <= summary.static.resources["cpu"].held
    suite = summary.tangram.tasks["compose.demo.actions.run_suite"]
    assert suite.exec_s > 0.1
    assert remove_containers((tmp_path / "state" / "owner").read_text(encoding="utf-8").strip()) == 0


def _sizes(report: BatchReport, task: str) -> set[int]:
    return {units for name, rows in report.tasks.items() if name.endswith(task) for units in rows.sizes}
