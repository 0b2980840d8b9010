"""`tangram down`: stop a running `tangram up` and remove what was left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from compose.state_dir import StateDir

_LIMIT = 60.0  # seconds that `up` gets to stop


@click.command()
def down() -> None:
    """Stop a running `tangram up`, clean up.

    It is found by the state folder, TANGRAM_STATE_DIR; containers that it left behind are removed.
    Nothing to stop is not an error.
    """
    from compose.containers import remove_containers
    from compose.state_dir import StateDir
    from tangram_tasks.settings import settings

    state = StateDir(settings().state_dir)
    click.echo(_stop(state))
    if state.path.exists():
        removed = remove_containers(state.owner())
        click.echo(f"removed {removed} left-over container(s)")


def _stop(state: StateDir) -> str:
    import os
    import signal
    import time

    from tangram_tasks.errors import ConfigurationError

    holder = state.holder()
    if holder is None:
        return f"nothing runs in {state.path}"
    os.kill(holder, signal.SIGTERM)
    deadline = time.monotonic() + _LIMIT
    while state.holder() == holder:
        if time.monotonic() > deadline:
            raise ConfigurationError(f"process {holder} did not stop within {_LIMIT:g} s: kill it, then run this again")
        time.sleep(0.05)
    return f"stopped process {holder}"
