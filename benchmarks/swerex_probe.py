"""Times SWE-ReX's runtimes on `true`; run by the interpreter of the environment that `benchmarks.swerex` makes.

Arguments: the image, the label of its container, how many commands. Prints one JSON object last.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest
from swerex.runtime.local import LocalRuntime

PORT = 8000  # of its server; the container is on the host's network, so that no bridge is needed


async def _times(run: Callable[[], Awaitable[Any]], count: int) -> dict[str, Any]:
    """Return ms of those calls that went well, and how many did not."""
    took, failed = [], 0
    for _ in range(count):
        began = time.perf_counter()
        try:
            await run()
        except Exception:  # noqa: BLE001  # whatever it raises, it is counted
            failed += 1
        else:
            took.append(1e3 * (time.perf_counter() - began))
    return {"ms": took, "failed": failed}


async def _runtime(runtime: Any, count: int) -> dict[str, Any]:
    rows = {"execute": await _times(lambda: runtime.execute(Command(command=["true"])), count)}
    await runtime.create_session(CreateBashSessionRequest())
    rows["session"] = await _times(lambda: runtime.run_in_session(BashAction(command="true", timeout=10)), count)
    return rows


async def _main(image: str, label: str, count: int) -> dict[str, Any]:
    local = LocalRuntime()
    rows = {f"local {name}": row for name, row in (await _runtime(local, count)).items()}
    await local.close()
    seen = [argument for path in (sys.prefix, sys.base_prefix, "/usr/lib") for argument in ("-v", f"{path}:{path}:ro")]
    options = ["--network", "host", "--label", label, "-e", f"PATH={sys.prefix}/bin:/usr/bin:/bin", *seen]
    deployment = DockerDeployment(image=image, pull="never", port=PORT, startup_timeout=60, docker_args=options)
    await deployment.start()
    try:
        rows |= {f"docker {name}": row for name, row in (await _runtime(deployment.runtime, count)).items()}
    finally:
        await deployment.stop()
    return rows


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))))  # noqa: T201  # its purpose
