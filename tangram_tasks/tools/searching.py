"""Finding things."""

from __future__ import annotations

from typing import Any

from tangram_tasks.sandbox import Sandbox
from tangram_tasks.shared import shared_action

_MOST_ENTRIES = 2000
_LONGEST_LINE = 500
#: `bash -c SCRIPT LINES ARGUMENT...`: no more lines than that, and grep's own exit code.
_GREP = 'grep -rnHIEZ "$@" | head -n "$0"; exit "${PIPESTATUS[0]}"'


@shared_action(name="tangram_tasks.tools.grep", cpu=1, timeout=60, duration=0.04)
def grep(
    sandbox: Sandbox, pattern: str, path: str = ".", glob: str | None = None, max_matches: int = 200
) -> dict[str, Any]:
    """Search text files for lines that match.

    Args:
        sandbox: given by the worker.
        pattern: an extended regular expression (`grep -E`).
        path: a file or folder.
        glob: names of the files to search, such as `*.py`.
        max_matches: stop after so many.

    Returns:
        matches, each with path, line and text (500 characters at most); truncated, if there are more.

    Raises:
        FileNotFoundError: there is no such path.
        ValueError: the pattern does not compile.
    """
    if max_matches < 1:
        raise ValueError("max_matches must be at least 1")
    options = [] if glob is None else [f"--include={glob}"]
    script = ["bash", "-c", _GREP, str(max_matches + 1), *options, "-e", pattern, "--", path]
    result = sandbox.exec(script)
    if result.exit_code == 2 and not result.stdout:
        if "No such file" in result.stderr:
            raise FileNotFoundError(2, "no such file or folder in the sandbox", path)
        raise ValueError(f"grep cannot search {path} for {pattern!r}: {result.stderr.strip()}")
    matches = [_match(row) for row in result.stdout.split("\n") if "\0" in row]
    return {"matches": matches[:max_matches], "truncated": len(matches) > max_matches or result.truncated}


@shared_action(name="tangram_tasks.tools.list_files", cpu=1, timeout=60, duration=0.04)
def list_files(sandbox: Sandbox, path: str = ".", depth: int = 2) -> dict[str, Any]:
    """List a folder; hidden files are left out.

    Args:
        sandbox: given by the worker.
        path: the folder.
        depth: how many levels down.

    Returns:
        files, path to bytes; folders; both below `path`, links are files; truncated, if there are more than 2000.

    Raises:
        FileNotFoundError: there is no such path.
    """
    if depth < 1:
        raise ValueError("depth must be at least 1")
    where = path if path.startswith("/") else f"./{path}"
    hidden = ["-name", ".?*", "-prune", "-o", "-printf", "%y %s %P\\0"]
    result = sandbox.exec(["find", where, "-mindepth", "1", "-maxdepth", str(depth), *hidden])
    if "No such file" in result.stderr and not result.stdout:
        raise FileNotFoundError(2, "no such file or folder in the sandbox", path)
    rows = sorted((row.split(" ", 2) for row in result.stdout.split("\0") if row), key=lambda row: row[2])
    kept = rows[:_MOST_ENTRIES]
    return {
        "files": {name: int(size) for kind, size, name in kept if kind != "d"},
        "folders": [name for kind, _, name in kept if kind == "d"],
        "truncated": len(rows) > len(kept) or result.truncated,
    }


def _match(row: str) -> dict[str, Any]:
    path, _, rest = row.partition("\0")
    line, _, text = rest.partition(":")
    return {"path": path.removeprefix("./"), "line": int(line), "text": text[:_LONGEST_LINE]}
