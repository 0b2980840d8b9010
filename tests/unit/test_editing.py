"""What apply_patch leaves behind when a file cannot be written."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tangram_tasks import tools
from tangram_tasks.errors import SandboxError
from tangram_tasks.sandbox import ExecResult, Sandbox

PATCH = """\
--- a/one
+++ b/one
@@ -1 +1 @@
-1
+eins
--- /dev/null
+++ b/two
@@ -0,0 +1 @@
+zwei
--- a/three
+++ b/three
@@ -1 +1 @@
-3
+drei
"""


def sandbox_with(files: dict[str, bytes], *, full_at: str) -> Sandbox:
    """Return a sandbox of these files, in which the first try to write one of them fails half-way."""
    failures = [full_at]

    def read(path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path][offset:][:length]

    def write(path: str, data: str) -> None:
        files[path] = data.encode()[:2]
        if path in failures:
            failures.remove(path)
            raise SandboxError(f"{path}: no space left")
        files[path] = data.encode()

    def run(argv: list[str]) -> ExecResult:
        files.pop(argv[-1])
        return ExecResult(0, "", "")

    return Mock(Sandbox, read_file=read, write_file=write, exec=run)


def test_a_patch_that_cannot_be_written_is_taken_back() -> None:
    files = {"one": b"1\n", "three": b"3\n"}
    with pytest.raises(SandboxError, match="three: no space left"):
        tools.apply_patch.run(sandbox_with(files, full_at="three"), PATCH)
    assert files == {"one": b"1\n", "three": b"3\n"}


def test_otherwise_it_is_written() -> None:
    files = {"one": b"1\n", "three": b"3\n"}
    tools.apply_patch.run(sandbox_with(files, full_at=""), PATCH)
    assert files == {"one": b"eins\n", "two": b"zwei\n", "three": b"drei\n"}
