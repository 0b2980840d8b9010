"""Calls with a key and trajectories with a journal, replayed after the trainer was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, CpuNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import ActionTimeout, InvalidAction, NoCapacity, ResultTooLarge, SandboxError, TangramApp
from tangram_tasks.backend import REPORT
from tangram_tasks.tools import bash
from tests.support import actions

WAIT = 20


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=4)}
    config = StackConfig(
        persistent=False,
        api=(ApiNodeConfig(name="api-1", providers=providers),),
        cpu=(CpuNodeConfig(name="cpu-1", cores=2, backend="local"),),
        imports=("tests.support.actions",),
        unsafe_local=True,
        settings={"max_waiting_per_job": "20", "max_waiting": "30", "max_result": "100000"},
    )
    with Stack(config) as stack:
        yield stack


def client(stack: Stack, job: str = "") -> TangramApp:
    app = TangramApp("client", broker=stack.broker_url, job=job)
    app.set_current()
    return app


@pytest.fixture
def app(stack: Stack) -> Iterator[TangramApp]:
    app = client(stack)
    yield app
    app.close()


def test_a_call_with_a_key_runs_once_also_for_another_process(stack: Stack, app: TangramApp, tmp_path: Path) -> None:
    log = tmp_path / "log"
    keyed = actions.logged.using(action_key="once")
    assert keyed.delay(str(log), "x", 0.0).get(timeout=WAIT) == "x"
    assert keyed.delay(str(log), "x", 0.0).get(timeout=WAIT) == "x"
    again = client(stack)
    result = actions.logged.using(action_key="once").delay(str(log), "x", 0.0)
    assert result.get(timeout=WAIT) == "x"
    assert again.backend.get_task_meta(result.id)[REPORT]["node"] == "api-1", "with its report"
    again.close()
    assert log.read_text() == "x\n"
    other = client(stack, job="another job")
    assert actions.logged.using(action_key="once").delay(str(log), "x", 0.0).get(timeout=WAIT) == "x"
    other.close()
    assert log.read_text() == "x\nx\n", "keys belong to a job"


async def test_two_that_wait_for_one_call_both_get_it(app: TangramApp, tmp_path: Path) -> None:
    log = tmp_path / "log"
    keyed = actions.logged.using(action_key="shared")
    results = await asyncio.wait_for(asyncio.gather(*(keyed.adelay(str(log), "y", 0.3) for _ in range(3))), WAIT)
    assert results == ["y"] * 3
    assert await keyed.adelay(str(log), "y", 0.3) == "y"
    assert log.read_text() == "y\n"


def test_another_call_under_the_same_key_is_refused(app: TangramApp, tmp_path: Path) -> None:
    keyed = actions.add.using(action_key="sum")
    assert keyed.delay(1, 1).get(timeout=WAIT) == 2
    with pytest.raises(InvalidAction, match="another call"):
        keyed.delay(1, 2)


def test_the_tasks_own_error_is_recorded_and_a_fault_of_the_machinery_is_not(app: TangramApp) -> None:
    failing = actions.fail.using(action_key="own error")
    ids = set()
    for _ in range(2):
        result = failing.delay("mine")
        with pytest.raises(ValueError, match="mine"):
            result.get(timeout=WAIT)
        ids.add(app.backend.get_task_meta(result.id)["date_done"])
    assert len(ids) == 1, "recorded"
    late = actions.overrun.using(action_key="fault")
    ids = set()
    for _ in range(2):
        result = late.delay(0.4)
        with pytest.raises(ActionTimeout):
            app.AsyncResult(result.id).get(timeout=WAIT)
        ids.add(app.backend.get_task_meta(result.id)["date_done"])
    assert len(ids) == 2, "tried again"


TRAINER = """
import os, signal, sys
from tangram_tasks import TangramApp
from tangram_tasks.tools import bash
app = TangramApp("trainer", broker=sys.argv[1])
app.set_current()
with app.trajectory(journal="episode-7", memory="64MiB"):
    for step in range(3):
        print(bash.delay(f"echo {step} >> steps; wc -l < steps").get(timeout=20)["stdout"].strip(), flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print(bash.delay("cat steps").get(timeout=20)["stdout"].split(), flush=True)
"""


def trainer(stack: Stack, end: str) -> tuple[int, list[str]]:
    run = subprocess.run(
        [sys.executable, "-c", TRAINER, stack.broker_url, end],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    return run.returncode, run.stdout.splitlines()


def test_a_trajectory_is_replayed_from_its_journal_and_goes_on(stack: Stack, app: TangramApp) -> None:
    assert trainer(stack, "die") == (-signal.SIGKILL, ["1", "2", "3"])
    assert trainer(stack, "live") == (0, ["1", "2", "3", "['0', '1', '2']"]), "nothing ran twice"
    assert trainer(stack, "live") == (0, ["1", "2", "3", "['0', '1', '2']"]), "also without its sandbox"
    with (
        app.trajectory(journal="episode-7", memory="64MiB") as trajectory,
        pytest.raises(SandboxError, match=trajectory.id),
    ):
        bash.using(action_key="new").delay("true").get(timeout=WAIT)


def test_large_arguments_and_results_are_refused_by_name(app: TangramApp) -> None:
    with pytest.raises(InvalidAction, match=r"t\.add: its arguments have \d+ bytes.*TANGRAM_MAX_MESSAGE"):
        actions.add.delay(1, "x" * 5_000_000)
    with pytest.raises(ResultTooLarge, match=r"t\.large has \d+ bytes.*TANGRAM_MAX_RESULT"):
        actions.large.delay(200_000).get(timeout=WAIT)
    assert len(actions.large.delay(50_000).get(timeout=WAIT)) == 50_000


def test_too_many_waiting_of_a_job_and_in_all_are_refused_at_once(stack: Stack) -> None:
    first = client(stack, job="one")
    busy = [actions.nap.delay(2.0) for _ in range(4)]
    waiting = [actions.add.delay(1, i) for i in range(26)]
    outcomes = [result.get(timeout=WAIT, propagate=False) for result in waiting]
    refused = [error for error in outcomes if isinstance(error, NoCapacity)]
    assert 5 <= len(refused) <= 6
    assert all("job 'one'" in str(error) and error.retry_after > 0 for error in refused)
    for result in busy:
        result.get(timeout=WAIT)
    assert actions.add.delay(1, 1).get(timeout=WAIT) == 2
    first.close()
