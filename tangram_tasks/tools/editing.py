"""Reading and changing text files."""

from __future__ import annotations

from tangram_tasks.errors import SandboxError
from tangram_tasks.sandbox import Sandbox
from tangram_tasks.shared import shared_action
from tangram_tasks.tools.patch import FilePatch, parse_patch, split_lines

_QUOTED = 80  # characters of a searched text in messages


@shared_action(name="tangram_tasks.tools.read_file", cpu=1, timeout=60, duration=0.04)
def read_file(sandbox: Sandbox, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
    """Return a text file (UTF-8, undecodable bytes replaced), or some of its lines.

    Args:
        sandbox: given by the worker.
        path: the file.
        start_line: first line, counted from 1.
        end_line: last line, included; past the end is allowed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the lines are not a range.
    """
    first = 1 if start_line is None else start_line
    if first < 1 or (end_line is not None and end_line < first):
        raise ValueError(f"lines {start_line} to {end_line} are no range: count from 1, and end_line is included")
    text = sandbox.read_file(path).decode("utf-8", "replace")
    if start_line is None and end_line is None:
        return text
    return "".join(split_lines(text)[first - 1 : end_line])


@shared_action(name="tangram_tasks.tools.write_file", cpu=1, timeout=60, duration=0.04)
def write_file(sandbox: Sandbox, path: str, text: str) -> int:
    """Create or replace a text file with its folders. Returns the number of bytes written."""
    data = text.encode()
    sandbox.write_file(path, data)
    return len(data)


@shared_action(name="tangram_tasks.tools.edit_file", cpu=1, timeout=60, duration=0.04)
def edit_file(sandbox: Sandbox, path: str, old: str, new: str, count: int = 1) -> int:
    """Replace a text that occurs exactly `count` times. Returns the line of the first replacement.

    Args:
        sandbox: given by the worker.
        path: the file, UTF-8.
        old: the text to replace, as it stands there, white space and all.
        new: what to put in its place.
        count: how often `old` must occur; all of them are replaced.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: `old` does not occur so often, or the file is no text. Nothing is changed.
    """
    if not old or count < 1:
        raise ValueError("old must not be empty, and count must be at least 1")
    text = _text(sandbox, path)
    found = text.count(old)
    if found == 0:
        raise ValueError(f"{path}: the text to replace was not found: {old[:_QUOTED]!r}")
    if found != count:
        raise ValueError(
            f"{path}: the text to replace was found {found} times, not {count}: add lines around it until it is the "
            f"only one, or pass count={found}"
        )
    sandbox.write_file(path, text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


@shared_action(name="tangram_tasks.tools.apply_patch", cpu=1, timeout=60, duration=0.04)
def apply_patch(sandbox: Sandbox, patch: str) -> dict[str, str]:
    """Apply a unified diff; nothing is changed unless all of it fits.

    Hunks may stand a few lines away from where they say, but must match exactly.

    Args:
        sandbox: given by the worker.
        patch: as `diff -u` or `git diff` writes it.

    Returns:
        path to "created", "changed" or "deleted".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no unified diff, or a hunk does not fit; the message names it.
        SandboxError: a file cannot be written; what had been changed is put back.
    """
    plan = [(change, *_versions(sandbox, change)) for change in parse_patch(patch)]
    begun: list[tuple[str, str | None]] = []
    try:
        for change, before, after in plan:
            begun.append((change.path, before))
            _put(sandbox, change.path, after)
    except SandboxError:  # no space left, or a folder that may not be written
        for path, before in reversed(begun):
            _put(sandbox, path, before)
        raise
    return {change.path: change.kind for change, _, _ in plan}


def _versions(sandbox: Sandbox, change: FilePatch) -> tuple[str | None, str | None]:
    """Return the file's text before and after; None if there is no such file."""
    if change.kind != "created":
        before = _text(sandbox, change.path)
        return before, change.apply(before)
    try:
        sandbox.read_file(change.path, length=0)
    except FileNotFoundError:
        return None, change.apply("")
    raise ValueError(f"{change.path}: the patch creates it, but it is there already; nothing was changed")


def _put(sandbox: Sandbox, path: str, text: str | None) -> None:
    if text is not None:
        sandbox.write_file(path, text)
    elif not (result := sandbox.exec(["rm", "-f", "--", path])).ok:
        raise SandboxError(f"{path} cannot be deleted: {result.stderr.strip()}")


def _text(sandbox: Sandbox, path: str) -> str:
    try:
        return sandbox.read_file(path).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text: it cannot be edited") from None
