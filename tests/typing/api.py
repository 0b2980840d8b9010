"""How rollout code uses the API; type-checked, never run."""

from __future__ import annotations

from typing import Any

from tangram_tasks import ActionReport, Amdahl, ExecResult, NoCapacity, Sandbox, ServiceHandle, Table, TangramApp
from tangram_tasks.apis import http_get
from tangram_tasks.handle import ActionHandle
from tangram_tasks.rewards import score
from tangram_tasks.tools import bash

app = TangramApp("rollouts", broker="redis://127.0.0.1:6379/0", job="coding")


@app.action(cpu=(1, 2, 4, 8), memory="2GiB", elasticity=Amdahl(serial=0.05), timeout=120)
def run_suite(sandbox: Sandbox, target: str) -> dict[str, Any]:
    result: ExecResult = sandbox.exec(["pytest", "-n", str(sandbox.max_cpus), target], timeout=60, env={"A": "b"})
    sandbox.write_file("log", result.stdout)
    sandbox.write_file("log", result.stderr_bytes, append=True)
    if sandbox.bash("make", session="build", cwd="src", timeout=9).restarted:
        raise RuntimeError([process.command for process in sandbox.processes()])
    return {"passed": result.ok, "log": sandbox.read_file("log").decode()}


@app.action(gpu=(1, 2), service="judge", elasticity=Table(speedup={1: 1.0, 2: 1.8}))
def judge(text: str) -> float:
    return 0.0


@app.service_action(service="judge", gpu=(1, 2, 4), elasticity=Amdahl(serial=0.05), timeout=60)
def quality(service: ServiceHandle, question: str, answers: list[str]) -> float:
    scores: list[float] = service.call("score", {"pairs": [[question, answer] for answer in answers]})
    return max(scores)


async def rollout() -> float:
    async with app.trajectory(image="python:3.12-slim", memory="1GiB", max_lifetime="2h", env={"CI": "1"}) as t:
        await bash.adelay("ls", session="other")
        handle: ActionHandle = await bash.using(timeout=5, priority=1, trajectory=t.id).asubmit("make")
        try:
            await handle
        except NoCapacity as full:
            await handle.cancel()
            return full.retry_after
        report: ActionReport | None = handle.report
    await http_get.adelay("search", "/q", {"q": "x"})
    await score.adelay("minilm", [("a", "b")])
    await quality.using(gpu=2).adelay("why", ["because"])
    return report.act_s if report else 0.0
