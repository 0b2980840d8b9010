"""Commands that attack the sandbox: it stays usable, and the worker is told what happened."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tangram_tasks.errors import ActionOutOfMemory, ActionTimeout, NoProcessesLeft
from tests.support.cpu_nodes import Trajectory

SPIN = """
import os, time
file = os.open("used", os.O_CREAT | os.O_WRONLY)
while True:
    os.pwrite(file, b"%012.6f" % time.process_time(), 0)
"""
PATIENT_BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(600)
    except OSError:
        open("full", "w").close()
        time.sleep(0.01)
"""
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"


def test_out_of_memory_is_told_as_such(isolated: Trajectory) -> None:
    with isolated.lease(action="greedy") as lease:
        with pytest.raises(ActionOutOfMemory, match=r"greedy.*ran out of the sandbox's memory"):
            lease.exec(["python3", "-c", "print('so far', flush=True); x = bytearray(900_000_000)"])
        assert lease.exec(["echo", "alive"]).stdout == "alive\n"


def test_out_of_memory_in_a_child_of_the_command(isolated: Trajectory) -> None:
    with isolated.lease() as lease, pytest.raises(ActionOutOfMemory):
        lease.exec(["bash", "-c", "python3 -c 'x = bytearray(900_000_000)'; exit 1"])


def test_out_of_memory_tells_the_peak(isolated: Trajectory) -> None:
    with isolated.lease() as lease:
        lease.bash("kept=1")
        hog = "python3 -c 'x = bytearray(200_000_000); y = bytearray(700_000_000)'"
        for session in (False, True):
            with pytest.raises(ActionOutOfMemory, match=r"its largest process had \d{3} MiB") as caught:
                lease.bash(hog) if session else lease.exec(["bash", "-c", hog + "; exit 1"])
            assert caught.value.result is not None
            assert caught.value.result.peak_memory > 200_000_000
        assert lease.bash("echo $kept").stdout == "1\n"


def test_full_disk_is_the_commands_problem(isolated: Trajectory) -> None:
    with isolated.lease() as lease:
        result = lease.exec(["dd", "if=/dev/zero", "of=/work/full", "bs=1M", "count=500"])
        assert result.exit_code == 1
        assert "No space left" in result.stderr
        assert lease.exec(["rm", "full"]).ok


@pytest.mark.parametrize("program", [["bash", "-c", "b() { b | b & }; b; sleep 60"], ["python3", "-c", FORK_BOMB]])
def test_fork_bomb_ends_with_its_action(isolated: Trajectory, program: list[str]) -> None:
    with isolated.lease(seconds=60) as lease:
        with pytest.raises(ActionTimeout):
            lease.exec(program, timeout=1.0)
        result = lease.exec(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])
        assert int(result.stdout) < 10


def test_fork_bomb_left_behind_is_killed_for_the_next_command(isolated: Trajectory) -> None:
    with isolated.lease(seconds=60) as lease:
        lease.write_file("bomb.py", PATIENT_BOMB)
        lease.exec(["bash", "-c", "setsid python3 bomb.py >/dev/null 2>&1 & while ! [ -e full ]; do sleep 0.1; done"])
        time.sleep(0.3)  # the places of bash and its sleep are taken, too
        with pytest.raises(NoProcessesLeft, match="no processes left"):
            lease.exec(["true"])
        assert lease.exec(["true"]).ok


def test_fork_bomb_in_a_session(isolated: Trajectory) -> None:
    with isolated.lease(seconds=60) as lease:
        with pytest.raises(ActionTimeout):
            lease.bash("b() { b | b & }; b; sleep 60", timeout=1.0)
        result = lease.bash("ls -d /proc/[0-9]* | wc -l", timeout=20)
        assert int(result.stdout) < 10


@pytest.mark.parametrize("attack", ["kill -9 -1", "kill -TERM 1", "kill -INT 1", "kill -KILL 1", "kill -STOP 1"])
def test_killing_everything_does_not_end_the_sandbox(isolated: Trajectory, attack: str) -> None:
    with isolated.lease() as lease:
        lease.write_file("state", "kept")
        lease.exec(["bash", "-c", attack])
        assert lease.exec(["cat", "state"]).stdout == "kept"


def test_the_agent_is_out_of_reach(isolated: Trajectory) -> None:
    attempts = "cat /proc/1/environ; cat /proc/1/mem; ls /run/tangram; touch /x; touch /run/x; cat /proc/1/fd/0"
    with isolated.lease() as lease:
        result = lease.exec(["bash", "-c", attempts])
        assert result.stdout == ""
        denied = result.stderr.splitlines()
        assert len(denied) == 6
        assert all("denied" in line or "Read-only" in line for line in denied)


def test_commands_have_no_privileges(isolated: Trajectory) -> None:
    with isolated.lease() as lease:
        status = lease.exec(["cat", "/proc/self/status"]).stdout
        assert "CapEff:\t0000000000000000" in status
        assert "CapPrm:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        assert lease.exec(["id", "-u"]).stdout == "1000\n"
        interfaces = lease.exec(["cat", "/proc/net/dev"]).stdout.splitlines()[2:]
        assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]


def test_zombies_are_reaped(isolated: Trajectory) -> None:
    with isolated.lease() as lease:
        lease.exec(["bash", "-c", "for n in $(seq 100); do (sleep 0.1 &) ; done; sleep 0.5"])
        states = lease.exec(["bash", "-c", "cat /proc/[0-9]*/stat 2>/dev/null"]).stdout
        assert ") Z " not in states


def test_an_idle_sandbox_gets_almost_nothing(isolated: Trajectory) -> None:
    with isolated.lease() as lease:
        lease.write_file("spin.py", SPIN)
        lease.exec(["bash", "-c", "setsid python3 spin.py >/dev/null 2>&1 & while ! [ -s used ]; do sleep 0.1; done"])
        start = used(lease.read_file)
    time.sleep(1.0)
    with isolated.lease() as lease:
        after_idle = used(lease.read_file)
        lease.exec(["sleep", "1"])
        after_busy = used(lease.read_file)
    assert after_idle - start < (after_busy - after_idle) / 4


def used(read_file: Callable[[str], bytes]) -> float:
    """Return the CPU seconds that the spinner has noted, in lines of equal length."""
    return float(read_file("used")[:12])
