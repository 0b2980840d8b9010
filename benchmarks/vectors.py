"""Recompute decision vectors and compare: `python -m benchmarks.vectors FILE`.

Without a file, the few that are packaged are used. There are two file formats, one for policy "paper" and one for
"live": instances with `free`, `running`, `queue`, `now`, and what is expected of each.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from benchmarks import live_vectors, paper_vectors
from benchmarks.machine import machine
from tangram_tasks.errors import ConfigurationError

PACKAGED = Path(__file__).with_name("decision_vectors.json")
PACKAGED_LIVE = Path(__file__).with_name("live_decision_vectors.json")
FORMATS = {
    "tangram-scheduling-vectors/1": paper_vectors.differences,
    "tangram-live-vectors/1": live_vectors.differences,
}


def load(path: Path) -> list[dict[str, Any]]:
    """Return the instances of a vectors file. Raises ConfigurationError if it cannot be read as one."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"cannot read the vectors file {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"the vectors file {path} is not JSON: {error}") from None
    found = document.get("format") if isinstance(document, dict) else None
    if found not in FORMATS:
        raise ConfigurationError(f"{path} has format {found!r}, not {' or '.join(map(repr, FORMATS))}")
    instances = document.get("instances")
    if not isinstance(instances, list):
        raise ConfigurationError(f"the vectors file {path} has no list of instances")
    return [{**instance, "format": found} for instance in instances]


def differences(instance: dict[str, Any]) -> list[str]:
    """Return in words where our decision of one instance differs from the expected one."""
    return FORMATS[instance["format"]](instance)


def compare(instances: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the differences of each instance that has some, by its name."""
    return {instance["name"]: found for instance in instances if (found := differences(instance))}


def run() -> dict[str, Any]:
    """Compare the packaged vectors; for `python -m benchmarks`."""
    instances = load(PACKAGED) + load(PACKAGED_LIVE)
    wrong = compare(instances)
    return {
        "name": "vectors",
        "value": len(instances) - len(wrong),
        "unit": "equal decisions",
        "reach": f"all {len(instances)}",
        "holds": not wrong,
        "n": len(instances),
        "spread": {},
        "machine": machine(),
        "detail": wrong,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison. Returns 0 if all are equal, 1 if some differ, 2 if the file is no vectors file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vectors", description=__doc__)
    parser.add_argument("file", type=Path, nargs="*", default=[PACKAGED, PACKAGED_LIVE], help="a vectors file in JSON")
    try:
        instances = [instance for file in parser.parse_args(arguments).file for instance in load(file)]
    except ConfigurationError as error:
        click.echo(f"error: {error}", err=True)
        return 2
    wrong = compare(instances)
    totals = Counter(instance["kind"] for instance in instances)
    bad = Counter(instance["kind"] for instance in instances if instance["name"] in wrong)
    click.echo(f"{'kind':<20} {'instances':>9} {'equal':>6} {'differ':>6}")
    for kind, total in totals.items():
        click.echo(f"{kind:<20} {total:>9} {total - bad[kind]:>6} {bad[kind]:>6}")
    click.echo(f"{'all':<20} {len(instances):>9} {len(instances) - len(wrong):>6} {len(wrong):>6}")
    for name, found in wrong.items():
        click.echo(f"{name}: {'; '.join(found)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
