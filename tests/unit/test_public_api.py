"""The public API, name by name and signature by signature: a change of it shows in review."""

from __future__ import annotations

import inspect
from pathlib import Path

import tangram_tasks
from tangram_tasks.handle import ActionHandle
from tangram_tasks.task import ActionTask, BoundAction
from tangram_tasks.trajectory import Trajectory

SNAPSHOT = Path(__file__).with_name("public_api.txt")


def _signature(value: object) -> str:
    try:
        return str(inspect.signature(value))  # type: ignore[arg-type]  # whatever has none raises
    except (TypeError, ValueError):
        return ""


def _rows() -> list[str]:
    rows = []
    classes: dict[str, type] = {name: getattr(tangram_tasks, name) for name in tangram_tasks.__all__}
    more: tuple[type, ...] = (ActionHandle, ActionTask, BoundAction, Trajectory)
    classes |= {kind.__qualname__: kind for kind in more}
    for name, kind in sorted(classes.items()):
        rows.append(f"{name}{_signature(kind)}")
        rows += [
            f"{name}.{member}{_signature(value)}"
            for member, value in sorted(vars(kind).items())
            if not member.startswith(("_", "model_")) and callable(value)
        ]
    return rows


def test_the_public_api_is_the_recorded_one() -> None:
    recorded = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    assert _rows() == recorded, "if this is wanted, run this file to record it"


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(_rows()) + "\n", encoding="utf-8")
