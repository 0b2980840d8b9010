"""The ready-made actions in real sandboxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tangram_tasks import tools
from tests.support.cpu_nodes import Trajectory

Run = Callable[..., Any]
PATCH = """\
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
-one
+eins
 two
--- /dev/null
+++ b/sub/new.txt
@@ -0,0 +1 @@
+new
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
"""
SUITE = """\
import pytest
@pytest.mark.parametrize("n", range(3))
def test_numbers(n): assert n != 1, "one is wrong"
class TestBox:
    def test_in(self): pass
    @pytest.mark.skip(reason="why not")
    def test_skipped(self): pass
    @pytest.mark.xfail
    def test_known(self): assert False
@pytest.fixture
def broken():
    yield
    raise RuntimeError("down")
def test_torn(broken): pass
"""


@pytest.fixture
def call(trajectory: Trajectory) -> Run:
    """Return a caller of tools, each in an action of its own."""

    def run(name: str, *args: Any, units: int = 1, **kwargs: Any) -> Any:
        with trajectory.lease(units, seconds=60) as lease:
            return getattr(tools, name).run(lease, *args, **kwargs)

    return run


def test_bash_keeps_its_session(call: Run) -> None:
    first = call("bash", "mkdir -p d; cd d; x=1; echo out; echo err >&2; (exit 3)")
    assert (first["exit_code"], first["stdout"], first["stderr"], first["truncated"]) == (3, "out\n", "err\n", False)
    assert first["cwd"].endswith("/d")
    assert call("bash", "echo $x; basename $PWD")["stdout"] == "1\nd\n"
    assert call("bash", "echo $x", session="other")["stdout"] == "\n"
    assert call("bash", "basename $PWD", cwd="/tmp")["stdout"] == "tmp\n"
    assert call("bash", "exit 4")["restarted"]
    assert call("python", "print(6 * 7)")["stdout"] == "42\n"


def test_reading_and_editing(call: Run) -> None:
    assert call("write_file", "f.txt", "a\nb\nc\nd") == 7
    assert call("read_file", "f.txt") == "a\nb\nc\nd"
    assert call("read_file", "f.txt", start_line=2, end_line=3) == "b\nc\n"
    assert call("read_file", "f.txt", start_line=4) == "d"
    assert call("read_file", "f.txt", start_line=9) == ""
    with pytest.raises(ValueError, match="no range"):
        call("read_file", "f.txt", start_line=3, end_line=2)
    assert call("edit_file", "f.txt", "c\n", "cc\n") == 3
    assert call("read_file", "f.txt") == "a\nb\ncc\nd"
    with pytest.raises(ValueError, match=r"f.txt: the text to replace was not found: 'zz'"):
        call("edit_file", "f.txt", "zz", "")
    with pytest.raises(ValueError, match="found 2 times, not 1"):
        call("edit_file", "f.txt", "c", "x")
    assert call("edit_file", "f.txt", "c", "x", count=2) == 3
    assert call("read_file", "f.txt") == "a\nb\nxx\nd"
    with pytest.raises(FileNotFoundError):
        call("edit_file", "nope", "a", "b")


def test_a_patch_applies_as_a_whole_or_not_at_all(call: Run) -> None:
    call("write_file", "a.txt", "one\ntwo\n")
    with pytest.raises(FileNotFoundError):
        call("apply_patch", PATCH)
    assert call("read_file", "a.txt") == "one\ntwo\n"
    call("write_file", "old.txt", "old\n")
    changed = call("apply_patch", PATCH)
    assert changed == {"a.txt": "changed", "sub/new.txt": "created", "old.txt": "deleted"}
    assert call("read_file", "a.txt") == "eins\ntwo\n"
    assert call("read_file", "sub/new.txt") == "new\n"
    with pytest.raises(FileNotFoundError):
        call("read_file", "old.txt")
    with pytest.raises(ValueError, match=r"a.txt: hunk 1 \(at line 1\) does not fit"):
        call("apply_patch", PATCH)


def test_searching(call: Run) -> None:
    call("write_file", "src/a.py", "import os\nx = 1  # find me\n")
    call("write_file", "src/b.txt", "find me: too\nfind me again\n")
    call("write_file", "src/deep/er/c.py", "nothing")
    call("write_file", ".hidden/x", "x")
    found = call("grep", "find (me|you)", "src")
    assert sorted((match["path"], match["line"], match["text"]) for match in found["matches"]) == [
        ("src/a.py", 2, "x = 1  # find me"),
        ("src/b.txt", 1, "find me: too"),
        ("src/b.txt", 2, "find me again"),
    ]
    assert not found["truncated"]
    assert [match["path"] for match in call("grep", "find", glob="*.py")["matches"]] == ["src/a.py"]
    assert call("grep", "find", "src/a.py")["matches"][0]["line"] == 2
    short = call("grep", "find", max_matches=1)
    assert (len(short["matches"]), short["truncated"]) == (1, True)
    assert call("grep", "-nothing like it", "src")["matches"] == []
    with pytest.raises(ValueError, match="cannot search"):
        call("grep", "(", "src")
    with pytest.raises(FileNotFoundError):
        call("grep", "x", "nowhere")
    listed = call("list_files")
    assert listed["files"] == {"src/a.py": 27, "src/b.txt": 27}
    assert listed["folders"] == ["src", "src/deep"]
    assert call("list_files", "src/deep", depth=5)["files"] == {"er/c.py": 7}
    with pytest.raises(FileNotFoundError):
        call("list_files", "nowhere")


def test_a_suites_results(call: Run) -> None:
    call("write_file", "tests/test_it.py", SUITE)
    result = call("run_tests", "tests", units=2)
    assert {name: result[name] for name in ("passed", "failed", "errors", "skipped", "xfailed", "exit_code")} == {
        "passed": 3, "failed": 1, "errors": 1, "skipped": 1, "xfailed": 1, "exit_code": 1,
    }  # fmt: skip
    tests = {test["id"]: test for test in result["tests"]}
    assert "one is wrong" in tests["tests/test_it.py::test_numbers[1]"]["message"]
    assert tests["tests/test_it.py::TestBox::test_in"]["outcome"] == "passed"
    assert tests["tests/test_it.py::test_torn"]["outcome"] == "error"
    assert result["problem"] is None
    assert call("bash", "ls /tmp/tangram-junit-* 2>/dev/null")["stdout"] == ""


def test_a_suite_that_cannot_be_collected(call: Run) -> None:
    call("write_file", "test_bad.py", "def test_(: pass\n")
    result = call("run_tests", "test_bad.py")
    assert (result["exit_code"], result["errors"], result["passed"]) != (0, 0, 0)
    assert "SyntaxError" in result["output"]
    missing = call("run_tests", "nowhere")
    assert missing["exit_code"] in (4, 5)  # pytest-xdist finds no tests where pytest says that there is no folder
    assert missing["tests"] == []
