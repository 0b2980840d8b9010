"""Bash sessions: what they keep, and that nothing a command does breaks them for the next one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tangram_tasks.errors import ActionCancelled, ActionTimeout, InvalidAction, SpawnFailed
from tests.support.cpu_nodes import Trajectory

SETUP = "mkdir -p below; cd below; kept=1; export SEEN=2; f() { echo f$1; }; alias say='echo said'"
STATE = 'basename "$PWD"; echo $kept $SEEN; f 3; say it; sh -c "echo $SEEN"'
KEPT = "below\n1 2\nf3\nsaid it\n2\n"


def test_state_is_kept_between_actions(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        assert lease.bash(SETUP).ok
    with trajectory.lease() as lease:
        result = lease.bash(STATE)
        assert (result.stdout, result.stderr, result.exit_code) == (KEPT, "", 0)
        assert result.cwd.endswith("/below")
        assert not result.restarted
        assert lease.bash("echo $kept; basename $PWD", session="other").stdout.split()[0] != "1"


def test_streams_exit_code_and_usage(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        result = lease.bash("echo out; echo err >&2; (exit 7)")
        assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")
        busy = lease.bash("python3 -c 'x = bytearray(60_000_000); sum(range(9_000_000))'")
        assert busy.ok
        assert 0 < busy.cpu_seconds <= busy.duration * 2
        assert busy.peak_memory > 50_000_000
        assert lease.usage.cpu_seconds >= busy.cpu_seconds
        assert lease.bash("true").cpu_seconds < busy.cpu_seconds
        assert lease.bash("cat; read line || echo end").stdout == "end\n", "standard input is empty"
        assert lease.bash("").ok
        assert lease.bash("nope(").exit_code == 2
        assert lease.bash("x=$(printf 'a\\0b' | wc -c); echo $x").stdout == "3\n"


def test_a_folder_for_one_command(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        lease.bash("mkdir -p a b; cd a")
        assert lease.bash("basename $PWD; cd /", cwd="b").stdout == "b\n"
        assert lease.bash("basename $PWD").stdout == "a\n"
        with pytest.raises(SpawnFailed, match="nowhere"):
            lease.bash("true", cwd="nowhere")
        for cwd in ("with\0nul", "with\nnewline"):
            with pytest.raises(SpawnFailed):
                lease.bash("true", cwd=cwd)
        assert lease.bash("basename $PWD").stdout == "a\n"
        strange = lease.bash("mkdir $'\\xff\\n'; cd $'\\xff\\n'; exit")
        assert strange.cwd.endswith("\ufffd\n")
        assert lease.bash("pwd | od -An -c").stdout.split()[-3:] == ["377", "\\n", "\\n"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("cd /tmp; exit 3", 3),
        ("cd /tmp; set -e; false; echo no", 1),
        ("cd /tmp; set -u; echo $nothing", 127),
        ("cd /tmp; exec sh -c 'exit 4'", 4),
        ("cd /tmp; exec bash", 0),
        ("cd /tmp; trap 'exit 5' DEBUG", 5),
    ],
)
def test_a_shell_that_ends_is_replaced_where_it_was(trajectory: Trajectory, end: str, code: int) -> None:
    with trajectory.lease() as lease:
        lease.bash("kept=1; cd /tmp")
        result = lease.bash(f"echo said; {end}")
        assert result.exit_code == code
        assert result.stdout == "said\n"
        assert result.restarted
        after = lease.bash("echo $kept; pwd")
        assert after.stdout == "\n/tmp\n"
        assert not after.restarted


def test_a_shell_that_is_killed_is_replaced(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        pid = lease.bash("cd /tmp; echo $$").stdout.strip()
        result = lease.bash("echo said; kill -9 $$")
        assert (result.exit_code, result.stdout, result.restarted) == (137, "said\n", True)
        assert lease.bash("pwd; echo $$").stdout.split()[0] == "/tmp"
        other = lease.bash("echo $$").stdout.strip()
        assert other != pid
        lease.exec(["sh", "-c", f"kill -9 {other}"])
        result = lease.bash("pwd")
        assert (result.stdout, result.restarted) == ("/tmp\n", True), "killed between two commands: told by the next"


def test_a_timeout_kills_the_commands_tree_and_keeps_the_state(trajectory: Trajectory) -> None:
    with trajectory.lease(action="slow") as lease:
        lease.bash(SETUP)
        lease.bash("setsid sleep 977 >/dev/null 2>&1 & sleep 976 & true")
        script = "echo before; echo apart >&2; setsid sh -c 'sleep 978 & sleep 978' & sleep 978; echo after; sleep 978"
        with pytest.raises(
            ActionTimeout, match=r"action slow: bash -c .* was killed; last output: before\napart$"
        ) as caught:
            lease.bash(script, timeout=0.5)
        assert caught.value.result is not None
        assert caught.value.result.stdout == "before\n"
        assert not caught.value.result.restarted
        result = lease.bash(STATE)
        assert (result.stdout, result.restarted) == (KEPT, False)
        if (
            trajectory.node.backend_name != "local"
        ):  # there nothing is frozen: the shell may tell late of what was killed
            assert result.stderr == ""
        commands = [process.command for process in lease.processes()]
        assert [n for n in ("sleep 976", "sleep 977", "sleep 978") if n in commands] == ["sleep 976", "sleep 977"]


@pytest.mark.parametrize(
    "script",
    [
        "while :; do :; done",
        "sleep 50 & wait",
        "x=$(sleep 50); echo no",
        "sleep 50 | cat; echo no",
        "f() { sleep 50; }; f",
        "trap 'echo trapped' TERM INT EXIT CHLD; sleep 50",
    ],
)
def test_most_commands_can_be_interrupted(trajectory: Trajectory, script: str) -> None:
    with trajectory.lease() as lease:
        lease.bash("kept=1; cd /tmp")
        with pytest.raises(ActionTimeout):
            lease.bash(script, timeout=0.3)
        result = lease.bash("echo $kept; pwd")
        assert (result.stdout, result.restarted) == ("1\n/tmp\n", False)


@pytest.mark.parametrize(
    "script",
    [
        "trap '' RTMAX; while :; do :; done",
        "exec sleep 50",
        "builtin() { :; }",
        "f() { sleep 50; }; while :; do f; done",
        "set -n",
        "trap 'kill -STOP $$' EXIT; exit",
    ],
)
def test_a_shell_that_cannot_be_interrupted_is_replaced(trajectory: Trajectory, script: str) -> None:
    with trajectory.lease() as lease:
        lease.bash("cd /tmp; kept=1")
        with pytest.raises(ActionTimeout, match="variables and functions are lost"):
            lease.bash(script, timeout=0.3)
        result = lease.bash("echo $kept; pwd")
        assert (result.stdout, result.restarted) == ("\n/tmp\n", True)
        assert not lease.bash("true").restarted


def test_a_stopped_shell_does_not_block_its_session(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        with pytest.raises(ActionTimeout):
            lease.bash("kill -STOP $$", timeout=0.3)
        assert lease.bash("echo fine").stdout == "fine\n"


def test_cancel_ends_the_command_and_the_session_goes_on(trajectory: Trajectory) -> None:
    with trajectory.lease(action="c-2") as lease:
        lease.bash("kept=1")
        canceller = threading.Timer(0.4, lambda: trajectory.node.cancel("c-2"))
        canceller.start()
        with pytest.raises(ActionCancelled, match=r"c-2.*last output: so far"):
            lease.bash("echo so far; sleep 987")
        canceller.join()
    with trajectory.lease() as lease:
        assert lease.bash("echo $kept").stdout == "1\n"


@pytest.mark.parametrize(
    "script",
    [
        'for n in {3..254}; do eval "exec $n>&-"; done 2>/dev/null; echo done',
        "exec >/dev/null 2>&1; echo hidden",
        "exec <&-; echo done",
        "read() { :; }; printf() { :; }; eval() { :; }; times() { :; }; echo done",
        "unset TANGRAM_EXEC; readonly PWD; echo done",
        "TANGRAM_EXEC=forged; echo done",
        "for n in {200..220}; do printf 'exit 0\\n\\n\\n/\\0%s 0\\n\\n\\n/\\0' $TANGRAM_EXEC >&$n; done 2>/dev/null",
        "for n in {200..220}; do printf '%05000d\\0x %05000d\\n%05000dm\\n\\n/\\0' 1 1 1 >&$n; done 2>/dev/null",
        "(while :; do for n in {200..220}; do echo garbage >&$n; done; done) 2>/dev/null & sleep 0.3; kill %1",
        "set -o posix; set -f; IFS=x; shopt -s nocasematch; echo done",
        "LC_ALL=C; LANG=nope; PATH=/nowhere; echo done",
    ],
)
def test_tampering_hurts_nobody_else(trajectory: Trajectory, script: str) -> None:
    with trajectory.lease() as lease:
        lease.bash("cd /tmp", session="victim")
        try:
            lease.bash(script, session="victim", timeout=2)
        except ActionTimeout:
            lease.bash("true", session="victim", timeout=5)
        assert lease.bash("exit 7", session="victim", timeout=5).exit_code == 7
        result = lease.bash("echo fine; (exit 3)", session="victim", timeout=5)
        assert (result.stdout, result.exit_code) == ("fine\n", 3)
        assert lease.bash("echo fine").stdout == "fine\n"


def test_output_that_looks_like_news_is_output(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        text = "exit 0\n0m0.001s 0m0.000s\n0m0.000s 0m0.000s\n/tmp"
        result = lease.bash(f"printf '%s\\0' \"$TANGRAM_EXEC 0\n{text}\"; (exit 9)")
        assert result.exit_code == 9
        assert text in result.stdout


def test_huge_output_and_a_huge_script(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        result = lease.bash("head -c 50000000 /dev/zero | tr '\\0' x; echo end; echo e >&2")
        assert result.truncated
        assert len(result.stdout) == 1 << 20
        assert result.stdout.endswith("xend\n")
        assert result.stderr == "e\n"
        assert lease.bash(f"x='{'y' * 3_000_000}'; echo ${{#x}}").stdout == "3000000\n"
        assert lease.bash("echo small").stdout == "small\n"


def test_a_background_job_may_go_on_writing(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        began = time.monotonic()
        assert lease.bash("(sleep 0.5; echo later; sleep 50) & echo now").stdout == "now\n"
        assert time.monotonic() - began < 5
        assert lease.bash("sleep 1; echo then").stdout == "later\nthen\n"
        assert lease.bash("yes & sleep 0.2; echo z >&2").stderr == "z\n"
        assert lease.bash("kill %2; wait %2; echo ended >&2", timeout=20).stderr.endswith("ended\n")
        lease.bash("true")
        assert lease.bash("echo fine").stdout == "fine\n"


def test_commands_of_a_session_take_turns(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease, ThreadPoolExecutor(3) as pool:
        first = pool.submit(lease.bash, "sleep 1; echo first")
        time.sleep(0.3)
        with pytest.raises(ActionTimeout, match=r"waited 0\.\d s for another command of its session, its limit"):
            lease.bash("echo never", timeout=0.2)
        assert lease.bash("echo second").stdout == "second\n"
        assert first.result().stdout == "first\n"


def test_twenty_sessions_at_once(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease, ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda n: lease.bash(f"n={n}; sleep 0.2", session=f"s{n}"), range(20)))
        results = list(pool.map(lambda n: lease.bash("echo $n", session=f"s{n}"), range(20)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(20)]


def test_too_many_sessions_are_refused(trajectory: Trajectory) -> None:
    with trajectory.lease(seconds=60) as lease:
        for n in range(70):
            lease.bash("exit", session=f"ended-{n}")
        assert lease.bash("echo fine", session="one-more").stdout == "fine\n"


def test_processes_tell_who_started_them(trajectory: Trajectory) -> None:
    began = time.time()
    with trajectory.lease(action="starter") as lease:
        lease.bash("sleep 966 >/dev/null 2>&1 &", session="servers")
        lease.exec(["sh", "-c", "sleep 965 >/dev/null 2>&1 &"])
    with trajectory.lease() as lease:
        found = {process.command: process for process in lease.processes()}
    assert (found["sleep 966"].action, found["sleep 966"].session) == ("starter", "servers")
    assert (found["sleep 965"].action, found["sleep 965"].session) == ("starter", "")
    assert began - 2 < found["sleep 966"].started < time.time() + 2
    assert found["sleep 966"].cpu_seconds < 1


def test_a_server_of_a_session_survives_the_timeouts_of_others(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        lease.bash("(while :; do sleep 0.1; date +%s%N > beat; done) >/dev/null 2>&1 &", session="servers")
        for session in ("servers", "main"):
            with pytest.raises(ActionTimeout):
                lease.bash("sleep 50", session=session, timeout=0.3)
        with pytest.raises(ActionTimeout):
            lease.exec(["sleep", "50"], timeout=0.3)
        before = lease.read_file("beat")
        lease.exec(["sleep", "0.5"])
        assert lease.read_file("beat") != before


def test_bad_input_fails_at_the_call(trajectory: Trajectory) -> None:
    with trajectory.lease() as lease:
        with pytest.raises(InvalidAction, match="without NUL"):
            lease.bash("a\0b")
        with pytest.raises(InvalidAction, match="a session's name"):
            lease.bash("true", session="a/b")
