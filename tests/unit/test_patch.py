"""Unified diffs, parsed and applied."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangram_tasks.tools.patch import parse_patch, split_lines

TEXT = "one\ntwo\nthree\nfour\nfive\n"
PATCH = """\
diff --git a/src/x.txt b/src/x.txt
index 1..2 100644
--- a/src/x.txt
+++ b/src/x.txt
@@ -1,3 +1,3 @@ def f():
 one
-two
+zwei
 three
@@ -5 +5,2 @@
 five
+six
"""
texts = st.lists(st.sampled_from(["a", "b", "", "c d", "-", "+x", "\x0c", "é"]), max_size=25).map("\n".join)


def unified(old: str, new: str, context: int) -> str:
    rows = difflib.unified_diff(split_lines(old), split_lines(new), "a/f", "b/f", n=context)
    return "".join(row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)


@given(texts, texts, st.integers(min_value=0, max_value=4))
def test_what_diff_writes_applies(old: str, new: str, context: int) -> None:
    patch = unified(old, new, context)
    if old == new:
        assert patch == ""
        return
    (change,) = parse_patch(patch)
    assert change.path == "f"
    assert change.apply(old) == new


def test_hunks_of_a_file() -> None:
    (change,) = parse_patch(PATCH)
    assert (change.path, change.kind) == ("src/x.txt", "changed")
    assert change.apply(TEXT) == "one\nzwei\nthree\nfour\nfive\nsix\n"
    assert change.apply("zero\n" + TEXT) == "zero\none\nzwei\nthree\nfour\nfive\nsix\n", "some lines further down"


def test_a_hunk_that_does_not_fit_is_named() -> None:
    (change,) = parse_patch(PATCH)
    with pytest.raises(ValueError, match=r"src/x.txt: hunk 1 \(at line 1\).*line 2 is 'TWO', the patch wants 'two'"):
        change.apply(TEXT.replace("two", "TWO"))
    with pytest.raises(ValueError, match=r"hunk 2 \(at line 5\) does not fit: the file ends before it; nothing was"):
        change.apply(TEXT.replace("five\n", ""))


def test_files_are_created_and_deleted() -> None:
    created, deleted = parse_patch(
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    )
    assert (created.path, created.kind, created.apply("")) == ("new", "created", "a\nb\n")
    assert (deleted.path, deleted.kind, deleted.apply("gone\n")) == ("old", "deleted", None)
    with pytest.raises(ValueError, match="more lines than that"):
        deleted.apply("gone\nkept\n")


def test_paths_without_prefix_and_with_a_time_stamp() -> None:
    (change,) = parse_patch("--- b/x\t2026-01-01\n+++ b/x\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n")
    assert change.path == "b/x", "b/ is a folder here: nothing says a/"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("", "no unified diff"),
        ("just text\n", "no unified diff"),
        ("@@ -1 +1 @@\n-a\n+b\n", "stands without the two lines"),
        ("--- a/x\n+++ b/x\nnothing\n", "no hunk follows"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n", "hunk 1 .* is cut short at line 6"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n?b\n", "hunk 1 .* is cut short at line 5"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "must name a file"),
        ("rename from x\nrename to y\n", "renames"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" * 2, "changed twice"),
    ],
)
def test_what_is_wrong_is_said(patch: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_patch(patch)
