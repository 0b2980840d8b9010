"""The command line: `tangram COMMAND`."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

import click

from compose.commands.apis import apis
from compose.commands.dead import dead
from compose.commands.demo import demo
from compose.commands.down import down
from compose.commands.drain import drain
from compose.commands.entry import scheduler, worker
from compose.commands.flower import flower
from compose.commands.jobs import jobs
from compose.commands.queue import queue
from compose.commands.services import services
from compose.commands.simulate import simulate
from compose.commands.status import status
from compose.commands.up import up
from compose.commands.warm import warm
from compose.commands.web import web


class _Group(click.Group):
    """Prints our errors as one line each instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        from tangram_tasks.errors import TangramError

        try:
            return super().invoke(ctx)
        except TangramError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Exit codes:
  0    done
  1    an error, printed as one line; `status`: nothing runs; `demo`: a result was wrong;
       `simulate`: a replay differed, a target is out of reach
  2    wrong usage
  130  stopped by Ctrl-C
  143  stopped by SIGTERM

\b
Examples:
  tangram demo --lite          see it work on this machine
  tangram up                   run a deployment here
  tangram status -o json       what runs, what waits
  TANGRAM_BROKER_URL=redis://10.0.0.1:6379/0 tangram worker cpu""",
)
@click.version_option(package_name="tangram-rl")
def cli() -> None:
    """Schedule the external resources of agentic RL rollouts per action.

    Settings come from TANGRAM_* environment variables; see docs/operations.md. NO_COLOR turns colours off.
    """
    signal.signal(signal.SIGTERM, _stop)


cli.add_command(apis)
cli.add_command(dead)
cli.add_command(demo)
cli.add_command(down)
cli.add_command(drain)
cli.add_command(flower)
cli.add_command(jobs)
cli.add_command(queue)
cli.add_command(warm)
cli.add_command(scheduler)
cli.add_command(services)
cli.add_command(simulate)
cli.add_command(status)
cli.add_command(up)
cli.add_command(web)
cli.add_command(worker)


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind every `with` block, as Ctrl-C does."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        code = cli(prog_name="tangram", standalone_mode=False)
    except click.exceptions.Abort:  # click's word for Ctrl-C
        code = 130
    except click.UsageError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        code = error.exit_code
    sys.exit(code)


if __name__ == "__main__":
    main()
