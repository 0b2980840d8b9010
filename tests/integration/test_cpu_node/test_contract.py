"""What every backend promises to an action's body."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, SandboxError, SpawnFailed
from tests.support.cpu_nodes import Trajectory, processes_with
from tests.waiting import wait_until

TREE = "setsid sh -c 'sleep 987 & sleep 987' & (sleep 987 &) ; sleep 987"
BOTH = "import sys; b = sys.stdin.buffer.read(); sys.stdout.buffer.write(b); sys.stderr.buffer.write(b[::-1])"
ESCAPE = "echo before; echo apart >&2; " + TREE


def sleepers(trajectory: Trajectory) -> int:
    """How many of the test's sleeps run in the sandbox."""
    with trajectory.lease() as lease:
        return lease.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"]).stdout.count("sleep 987")


def test_streams_exit_code_and_usage(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        result = lease.exec(["bash", "-c", 'read line; echo "$line"; echo err >&2; exit 7'], stdin="hello\n")
        assert (result.exit_code, result.stdout, result.stderr) == (7, "hello\n", "err\n")
        assert not result.ok
        assert not result.truncated
        assert lease.cpus == 1
        assert lease.max_cpus == 4
        busy = lease.exec(["python3", "-c", "x = bytearray(60_000_000); sum(range(3_000_000))"])
        assert busy.ok
        assert 0 < busy.cpu_seconds <= busy.duration * 2
        assert busy.peak_memory > 60_000_000
        assert lease.usage.cpu_seconds >= busy.cpu_seconds
        assert lease.usage.peak_memory == busy.peak_memory


def test_killed_by_a_signal_is_told_as_a_shell_tells_it(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        assert lease.exec(["bash", "-c", "kill -SEGV $$"]).exit_code == 128 + 11


def test_environment_and_working_directory(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        lease.exec(["mkdir", "below"])
        script = ["sh", "-c", "basename $PWD; echo $FROM_ORDER $EXTRA $TANGRAM_BROKER_URL"]
        assert lease.exec(script, cwd="below", env={"EXTRA": "2"}).stdout == "below\n1 2\n"


def test_unknown_command_and_unknown_folder(trajectory: Trajectory) -> None:
    with trajectory.lease(action="a-1") as lease:
        with pytest.raises(SpawnFailed, match=r"action a-1: cannot start nope --x: .*No such file.*nope"):
            lease.exec(["nope", "--x"])
        with pytest.raises(SpawnFailed, match="nowhere"):
            lease.exec(["true"], cwd="nowhere")
        lease.write_file("plain.txt", "no program")
        with pytest.raises(SpawnFailed, match="Permission denied"):
            lease.exec(["./plain.txt"])
        assert lease.exec(["true"]).ok


@pytest.mark.parametrize("argv", [[], "ls -l", ["ls", 3], ["ls", "a\0b"]])
def test_bad_argv_fails_at_the_call(trajectory: Trajectory, argv: list[str]) -> None:
    with trajectory.lease() as lease, pytest.raises(InvalidAction, match="argv must be a list of texts"):
        lease.exec(argv)


def test_timeout_kills_the_tree_and_keeps_its_output(trajectory: Trajectory) -> None:
    with trajectory.lease(action="slow") as lease:
        with pytest.raises(ActionTimeout, match=r"action slow: bash -c .*before\napart$"):
            lease.exec(["bash", "-c", ESCAPE], timeout=0.5)
        assert sleepers(trajectory) == 0
        assert lease.exec(["true"]).ok


def test_the_actions_own_deadline_bounds_every_command(trajectory: Trajectory) -> None:
    with trajectory.lease(seconds=0.5) as lease:
        with pytest.raises(ActionTimeout):
            lease.exec(["sleep", "987"], timeout=60)
        with pytest.raises(ActionTimeout, match="used up its time"):
            lease.exec(["true"])


def test_servers_of_earlier_commands_survive_a_timeout(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        lease.exec(["bash", "-c", "setsid sleep 987 >/dev/null 2>&1 &"])
        lease.exec(["sleep", "0.05"])  # a tick of the kernel's clock, by which the age of processes is told
        with pytest.raises(ActionTimeout):
            lease.exec(["bash", "-c", ESCAPE], timeout=0.3)
        assert sleepers(trajectory) == 1


def test_a_parallel_command_survives_the_others_timeout(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease, ThreadPoolExecutor(2) as pool:
        doomed = pool.submit(lease.exec, ["bash", "-c", ESCAPE], timeout=0.6)
        time.sleep(0.2)
        lives = pool.submit(lease.exec, ["bash", "-c", "setsid sleep 1; echo done"])
        with pytest.raises(ActionTimeout):
            doomed.result()
        assert lives.result().stdout == "done\n"


def test_background_child_on_stdout_does_not_hold_up_the_result(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        result = lease.exec(["bash", "-c", "sleep 987 & echo started"], timeout=20)
        assert result.stdout == "started\n"
        assert result.ok


def test_the_exit_code_is_that_of_the_command_and_not_of_its_output(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        assert lease.exec(["bash", "-c", "exec >&- 2>&-; sleep 0.3; exit 7"]).exit_code == 7


def test_a_command_inherits_no_files(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        listed = lease.exec(["ls", "/proc/self/fd"]).stdout.split()
        assert set(listed) <= {"0", "1", "2", "3"}, "the last one is the listing itself"


@pytest.mark.parametrize("script", ["trap '' TERM INT HUP; while :; do sleep 0.1; done", "kill -STOP $$; sleep 5"])
def test_what_ignores_signals_or_stops_itself_ends_at_its_deadline(trajectory: Trajectory, script: str) -> None:
    with trajectory.lease() as lease:
        with pytest.raises(ActionTimeout):
            lease.exec(["bash", "-c", script], timeout=0.5)
        assert [process.command for process in lease.processes() if "sleep" in process.command] == []
        assert lease.exec(["true"]).ok


def test_cancel_kills_and_tells(trajectory: Trajectory) -> None:
    with trajectory.lease(action="c-1") as lease:
        canceller = threading.Timer(0.4, lambda: trajectory.node.cancel("c-1"))
        canceller.start()
        with pytest.raises(ActionCancelled, match="c-1"):
            lease.exec(["bash", "-c", ESCAPE])
        canceller.join()
        assert sleepers(trajectory) == 0
        with pytest.raises(ActionCancelled, match="before true"):
            lease.exec(["true"])
    assert not trajectory.node.cancel("c-1")


def test_close_cancels_what_runs(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease, ThreadPoolExecutor(1) as pool:
        running = pool.submit(lease.exec, ["sleep", "987"])
        time.sleep(0.2)
        trajectory.node.close(trajectory.id)
        with pytest.raises(ActionCancelled):
            running.result(timeout=20)
    with pytest.raises(SandboxError, match="has no sandbox on node"), trajectory.lease():
        pass


def test_endless_output_is_capped_and_drained(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        result = lease.exec(["bash", "-c", "head -c 100000000 /dev/zero | tr '\\0' x; echo end; echo e >&2"])
        assert result.ok
        assert result.truncated
        assert len(result.stdout) == 1 << 20
        assert result.stdout.endswith("xend\n")
        assert result.stderr == "e\n"


def test_large_input_comes_through_and_ignored_input_does_not_block(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        assert lease.exec(["wc", "-c"], stdin=b"y" * 3_000_000).stdout.split() == ["3000000"]
        assert lease.exec(["true"], stdin=b"y" * 3_000_000).ok


def test_parallel_commands(trajectory: Trajectory) -> None:
    with trajectory.lease(units=2) as lease, ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: lease.exec(["sh", "-c", f"sleep 0.2; echo {n}"]), range(32)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(32)]


def test_files_and_state_are_kept_between_actions(trajectory: Trajectory) -> None:
    data = bytes(range(256)) * 4096
    with trajectory.lease() as lease:
        lease.write_file("a/b/data.bin", data)
        lease.write_file("a/text.txt", "grüße")
    with trajectory.lease() as lease:
        assert lease.read_file("a/b/data.bin") == data
        assert lease.exec(["cat", "a/text.txt"]).stdout == "grüße"
        assert lease.exec(["sh", "-c", "echo more >> a/text.txt && chmod u+x a/text.txt"]).ok
        lease.write_file("a/text.txt", "shorter")
        assert lease.exec(["cat", "a/text.txt"]).stdout == "shorter"


def test_file_errors(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        with pytest.raises(FileNotFoundError, match="nope"):
            lease.read_file("nope")
        lease.exec(["mkfifo", "pipe"])
        for path in ("pipe", "."):
            with pytest.raises(SandboxError, match="not a regular file"):
                lease.read_file(path)
        with pytest.raises(InvalidAction, match="count bytes from 0"):
            lease.read_file("pipe", offset=-1)
        assert lease.exec(["true"]).ok


def test_files_over_the_size_of_a_frame(trajectory: Trajectory) -> None:
    data = bytes(range(256)) * (70 << 12)  # 70 MiB
    with trajectory.lease() as lease:
        lease.write_file("big", data)
        assert lease.read_file("big") == data
        assert lease.read_file("big", offset=(69 << 20) + 3, length=5) == bytes(range(3, 8))
        assert lease.read_file("big", offset=70 << 20) == b""
        lease.write_file("big", "short")
        lease.write_file("big", "er", append=True)
        assert lease.read_file("big") == b"shorter"
        assert lease.read_file("big", length=0) == b""


def test_binary_both_ways(trajectory: Trajectory) -> None:
    data = bytes(range(256)) * 2048
    with trajectory.lease() as lease:
        result = lease.exec(["python3", "-c", BOTH], stdin=data)
        assert (result.stdout_bytes, result.stderr_bytes) == (data, data[::-1])


def test_partial_output_is_told_on_cancel(trajectory: Trajectory) -> None:
    with trajectory.lease(action="c-3") as lease:
        canceller = threading.Timer(0.4, lambda: trajectory.node.cancel("c-3"))
        canceller.start()
        with pytest.raises(ActionCancelled, match="last output: so far") as caught:
            lease.exec(["bash", "-c", "echo so far; sleep 987"])
        canceller.join()
        assert caught.value.result is not None
        assert caught.value.result.stdout == "so far\n"


def test_usage_is_told_of_killed_commands_too(trajectory: Trajectory) -> None:
    for run in ("exec", "bash"):
        with trajectory.lease() as lease:
            lease.bash("true")
            before = lease.usage.cpu_seconds
            script = "python3 -c 'x = bytearray(60_000_000)\nwhile 1: pass'"
            with pytest.raises(ActionTimeout) as caught:
                lease.exec(["bash", "-c", script], timeout=1.5) if run == "exec" else lease.bash(script, timeout=1.5)
            assert caught.value.result is not None
            assert caught.value.result.cpu_seconds > 0.2
            assert caught.value.result.peak_memory > 50_000_000
            assert lease.usage.cpu_seconds - before == pytest.approx(caught.value.result.cpu_seconds)
            assert lease.usage.peak_memory == caught.value.result.peak_memory


def test_a_thread_cannot_outlive_its_lease(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        pass
    with pytest.raises(SandboxError, match="is over"):
        lease.exec(["true"])


def test_units_come_back_whatever_happens(trajectory: Trajectory) -> None:
    free = trajectory.node.stats()["cpu_free"]
    with pytest.raises(SpawnFailed), trajectory.lease(units=2) as lease:
        lease.exec(["nope"])
    assert trajectory.node.stats()["cpu_free"] == free
    with trajectory.lease(units=2), pytest.raises(SandboxError, match="0 of 2 are free"), trajectory.lease():
        pass
    assert trajectory.node.stats()["cpu_free"] == free


def test_test_suites_run_inside(trajectory: Trajectory) -> None:
    suite = "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_it(n): assert n != 3\n"
    with trajectory.lease(units=2, seconds=60) as lease:
        lease.write_file("tests/test_it.py", suite)
        result = lease.exec(["python3", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "tests"])
    assert result.exit_code == 1
    assert "1 failed, 19 passed" in result.stdout


def test_closing_twice_is_fine_and_nothing_is_left(trajectory: Trajectory) -> None:
    node = trajectory.node
    with trajectory.lease() as lease:
        lease.exec(["bash", "-c", "setsid sleep 98765 >/dev/null 2>&1 &"])
    node.close(trajectory.id)
    node.close(trajectory.id)
    wait_until(lambda: not processes_with("98765"), "the sandbox's process is gone")
