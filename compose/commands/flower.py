"""`tangram flower`: Flower on this deployment, with our columns."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  tangram flower                                  http://127.0.0.1:5555, a password is made and printed
  tangram flower --password-file flower.pass --port 8080
  tangram flower --address 10.0.0.5               other machines reach it; put TLS in front"""
)
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on; never all by default.")
@click.option("--port", type=click.IntRange(1, 65535), default=5555, show_default=True)
@click.option("--user", default="tangram", show_default=True, help="Name to log in with.")
@click.option("--password-file", type=click.Path(path_type=Path), help="File with the password (default: a new one).")
@click.option("--read-only", is_flag=True, help="Show only: no revoke, no pause.")
def flower(address: str, port: int, user: str, password_file: Path | None, read_only: bool) -> None:
    """Show queues, actions and nodes in a browser (Flower)."""
    import importlib.util
    import os
    import sys
    from secrets import token_urlsafe

    from compose.broker import check_broker
    from compose.state_dir import operator_url
    from tangram_tasks.errors import ConfigurationError
    from tangram_tasks.settings import settings

    if importlib.util.find_spec("flower") is None:
        raise ConfigurationError("flower is not installed: install tangram-rl[monitoring]")
    if ":" in user or not user:
        raise click.BadParameter("it must not be empty or contain a colon", param_hint="--user")
    if not address:
        raise click.BadParameter("an empty address would mean all of them", param_hint="--address")
    url = operator_url(settings())
    check_broker(url)
    password = token_urlsafe(12) if password_file is None else _read_password(password_file)
    click.echo(f"http://{f'[{address}]' if ':' in address else address}:{port}  user {user}", nl=False)
    click.echo(f"  password {password}" if password_file is None else f"  password in {password_file}")
    sys.stdout.flush()
    folder = Path(__file__).parents[2]
    config = folder / "monitoring" / "flowerconfig.py"
    arguments = ["--quiet", "-A", "monitoring.flower_app", "flower", f"--conf={config}"]
    options = [f"--address={address}", f"--port={port}", f"--read_only={read_only}"]
    # Through the environment, which other users cannot read: a command line is open to all.
    secret = {"FLOWER_BASIC_AUTH": f"{user}:{password}", "TANGRAM_BROKER_URL": url}
    os.execve(sys.executable, [sys.executable, "-m", "celery", *arguments, *options], {**os.environ, **secret})


def _read_password(file: Path) -> str:
    """Return the first line. Raises ConfigurationError if there is none."""
    from tangram_tasks.errors import ConfigurationError

    try:
        password = file.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the password file {file}: {error}") from None
    if not password:
        raise ConfigurationError(f"the password file {file} is empty")
    if "," in password:
        raise ConfigurationError(f"the password in {file} must not contain a comma: Flower splits there")
    return password
