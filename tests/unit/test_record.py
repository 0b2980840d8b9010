"""Records of the core: written as it runs, read back, replayed, and run again under other policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compose.simulate.engine import Engine
from compose.simulate.machines import Costs
from compose.simulate.outcome import Outcome
from compose.simulate.policies import simulate
from compose.simulate.replay import recorded_batch, replay
from compose.simulate.workloads.registry import find
from scheduler.core.events import Event, Grant, NodeJoined, Released, Submitted, TrajectoryOpened
from scheduler.core.quota import Quota
from scheduler.record import RecordedAdmission, open_record, read_record
from tangram_tasks.errors import ConfigurationError
from tests.support.core import action


def recorded(path: Path, name: str = "coding", batch: int = 16, costs: Costs | None = None) -> Outcome:
    """Record a simulated run on one node."""
    source = find(name)
    with open_record(path) as file:
        core = RecordedAdmission(file, "paper", 16, gpu_policy="residency")
        return Engine(core, source.cluster(batch).resized(1), source.draw(name, batch, 1, 1.0), costs).run()


@pytest.mark.parametrize("name", ["coding", "mopd", "deepsearch"])
def test_a_record_replays_to_the_same_decisions(tmp_path: Path, name: str) -> None:
    file = tmp_path / "events.jsonl"
    recorded(file, name)
    leads = read_record(file)
    assert [(lead.policy, lead.depth, lead.gpu_policy) for lead in leads] == [("paper", 16, "residency")]
    found = replay(leads)
    assert found.difference is None
    assert found.events == len(leads[0].steps)
    assert found.decisions == sum(len(step.decisions) for step in leads[0].steps) >= 16


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    said: list[Event] = [
        NodeJoined(0, "n", "api", quotas={"web": Quota(3, 2.5, 4)}),
        NodeJoined(1, "c", "cpu", {"cpu": 4, "memory": 100}),
        TrajectoryOpened(2, "t", 50),
        Submitted(3, action("a1", sizes=(1, 2), memory=5, deadline=9_000, priority=2)),
        Released(4, "a1"),
    ]
    with open_record(file) as opened:
        core = RecordedAdmission(opened, "paper", 16, gpu_policy="residency")
        answers = [core.handle(event) for event in said]
    steps = read_record(file)[0].steps
    assert [step.events for step in steps] == [[event] for event in said]
    assert [step.decisions for step in steps] == answers
    assert answers[3] == [Grant("a1", "c", 2)]


def test_events_told_together_are_replayed_together(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with open_record(file) as opened:
        core = RecordedAdmission(opened, "paper", 16, gpu_policy="residency")
        core.handle(NodeJoined(0, "c", "cpu", {"cpu": 4, "memory": 100}))
        # One at a time, the first would take all four cores.
        together = core.handle_all([Submitted(1, action(f"a{place}", sizes=(1, 2, 4))) for place in (1, 2)])
    assert together == [Grant("a1", "c", 2), Grant("a2", "c", 2)]
    (lead,) = read_record(file)
    assert len(lead.steps) == 2
    assert replay([lead]).difference is None


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    recorded(file)
    lines = file.read_text().splitlines()
    place = next(place for place, line in enumerate(lines) if '"Grant"' in line)
    row = json.loads(lines[place])
    row["decisions"][0]["units"] = 3
    lines[place] = json.dumps(row)
    file.write_text("\n".join(lines) + "\n")
    found = replay(read_record(file))
    assert found.difference is not None
    assert f"line {place + 1}" in found.difference
    assert "units=3" in found.difference
    assert found.events == place


def test_a_new_lead_starts_a_fresh_core_in_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    recorded(file)
    recorded(file)
    leads = read_record(file)
    assert len(leads) == 2
    assert leads[0].steps[0].events == leads[1].steps[0].events
    assert replay(leads).difference is None


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    recorded(file)
    text = file.read_text()
    file.write_text(text[:-20])
    assert len(read_record(file)[0].steps) == text.count("\n") - 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("{\n", "line 1, is not JSON"),
        ('{"format":"other"}\n', "line 1, is not of format"),
        ('{"events":[],"decisions":[]}\n', "line 1, is not of format"),
        (
            '{"format":"tangram-events/1","policy":"paper","depth":1,"gpu_policy":"min"}\n{"events":[{"type":"Tock"}],"decisions":[]}\n',
            "line 2, is not of format.*no event or decision 'Tock'",
        ),
    ],
)
def test_what_is_no_record_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_record(file)


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "events.jsonl"
    with pytest.raises(ConfigurationError, match="cannot record events"), open_record(file):
        pass


def test_a_full_disk_ends_the_record_but_not_the_scheduling(caplog: pytest.LogCaptureFixture) -> None:
    with open_record(Path("/dev/full")) as file:
        core = RecordedAdmission(file, "paper", 16, gpu_policy="residency")
        core.handle(NodeJoined(0, "c", "cpu", {"cpu": 4, "memory": 100}))
        assert core.handle(Submitted(1, action("a1"))) == [Grant("a1", "c", 1)]
    assert caplog.text.count("recording events ends: /dev/full can take no more") == 1


def test_recorded_arrivals_run_again_as_they_were(tmp_path: Path) -> None:
    file, free = tmp_path / "events.jsonl", Costs(cpu=0, sandbox=0)
    before = recorded(file, costs=free)
    again, machines = recorded_batch(read_record(file))
    assert machines == find("coding").cluster(16).resized(1)
    assert again.actions == len(before.finished)
    after = simulate("paper", machines, again, free)
    # Only first gaps are lost: a record knows no generation before the first action of a trajectory.
    assert sum(row.execution for row in after.finished) == pytest.approx(sum(row.execution for row in before.finished))
    assert after.step == pytest.approx(before.step, rel=0.1)
