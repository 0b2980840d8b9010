"""Supervised children are real processes here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.backoff import Backoff
from compose.process import ChildSpec
from compose.supervisor import Supervisor
from tangram_tasks.errors import ConfigurationError
from tests.waiting import runs, wait_until

SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
# Prints a grandchild's pid, then waits.
FAMILY = ("sh", "-c", "sleep 600 & echo $!; wait")
# Never ends on SIGTERM.
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600 & wait; done")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path, backoff=Backoff(first=0.05, limit=0.2), grace=0.5)
    yield supervisor
    supervisor.close()


def pid_of(supervisor: Supervisor, name: str) -> int:
    pid = supervisor.status()[name].pid
    assert pid is not None
    return pid


def first_line(supervisor: Supervisor, name: str) -> str:
    wait_until(lambda: bool(supervisor.tail(name)), f"{name} says something")
    return supervisor.tail(name).splitlines()[0]


def test_a_killed_child_is_started_again(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("child", SLEEP))
    before = pid_of(supervisor, "child")
    supervisor.kill("child")
    wait_until(lambda: supervisor.status()["child"].restarts == 1, "the child is started again")
    status = supervisor.status()["child"]
    assert status.pid not in (None, before)
    assert status.exit_code == -signal.SIGKILL
    assert not runs(before)


def test_a_restart_is_orderly(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("child", ("sh", "-c", "trap 'exit 3' TERM; echo ready; sleep 600 & wait")))
    assert first_line(supervisor, "child") == "ready"
    supervisor.restart("child")
    status = supervisor.status()["child"]
    assert status.exit_code == 3
    assert status.restarts == 1
    assert status.pid is not None


def test_output_goes_to_the_childs_own_log(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("one", ("sh", "-c", "echo out; echo err >&2; echo $WORD; sleep 600"), {"WORD": "word"}))
    wait_until(lambda: "word" in supervisor.tail("one"), "the child has written")
    assert supervisor.tail("one") == "out\nerr\nword"


def test_grandchildren_go_with_a_killed_child(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("family", FAMILY))
    grandchild = int(first_line(supervisor, "family"))
    assert runs(grandchild)
    supervisor.kill("family")
    wait_until(lambda: not runs(grandchild), "the grandchild is gone")


def test_close_leaves_no_process_however_stubborn(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, grace=0.3)
    for name, argv in {"sleep": SLEEP, "family": FAMILY, "stubborn": STUBBORN}.items():
        supervisor.start(ChildSpec(name, argv))
    pids = [pid_of(supervisor, name) for name in supervisor.status()]
    pids.append(int(first_line(supervisor, "family")))
    assert first_line(supervisor, "stubborn") == "ready"
    supervisor.close()
    supervisor.close()
    assert [pid for pid in pids if runs(pid)] == []
    with pytest.raises(ConfigurationError, match="closed"):
        supervisor.status()


def test_higher_stages_stop_first(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, grace=5)
    ends = tmp_path / "ends"
    for name, stage in {"low": 0, "high": 2, "middle": 1}.items():
        script = f"trap 'echo {name} >> {ends}; exit' TERM; echo ready; sleep 600 & wait"
        supervisor.start(ChildSpec(name, ("sh", "-c", script), stage=stage))
        assert first_line(supervisor, name) == "ready"
    supervisor.close()
    assert ends.read_text(encoding="utf-8").split() == ["high", "middle", "low"]


def test_a_program_that_does_not_exist_says_so_in_its_log(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("absent", ("/no/such/program",)))
    wait_until(lambda: "cannot start /no/such/program" in supervisor.tail("absent"), "the log says why")


def test_names_are_unique_and_must_exist(supervisor: Supervisor) -> None:
    supervisor.start(ChildSpec("child", SLEEP))
    with pytest.raises(ConfigurationError, match="'child' runs already"):
        supervisor.start(ChildSpec("child", SLEEP))
    with pytest.raises(ConfigurationError, match="no child named 'other': there are child"):
        supervisor.kill("other")


def test_children_and_grandchildren_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from compose.guardian import Guardian
from compose.process import ChildSpec
from compose.supervisor import Supervisor
logs = Path({str(tmp_path)!r})
doomed = logs / "doomed"
doomed.mkdir()
guardian = Guardian(logs / "guardian.log")
guardian.remove_folder(doomed)
supervisor = Supervisor(logs, guardian=guardian)
supervisor.start(ChildSpec("family", {FAMILY!r}))
while not supervisor.tail("family"):
    time.sleep(0.02)
print(supervisor.status()["family"].pid, supervisor.tail("family"), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(runs(pid) for pid in pids)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not any(runs(pid) for pid in pids), "child and grandchild are gone")
    wait_until(lambda: not (tmp_path / "doomed").exists(), "the folder is gone")
    assert (tmp_path / "guardian.log").read_text(encoding="utf-8") == ""
