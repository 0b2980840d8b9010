"""`python -m workers cpu|gpu|api`: run one node until TERM or INT."""

from __future__ import annotations

import logging
import sys

from tangram_tasks.errors import TangramError
from workers.boot import serve

KINDS = ("cpu", "gpu", "api")


def main(arguments: list[str]) -> int:
    """Run the node; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in KINDS:
        print(f"usage: python -m workers {'|'.join(KINDS)}", file=sys.stderr)  # noqa: T201  # speaks to a terminal
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        serve(arguments[0])
    except TangramError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # speaks to a terminal
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
