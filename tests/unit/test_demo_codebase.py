"""The project that the demo repairs: it is broken as shipped, and the edit mends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compose.demo.actions import counts
from compose.demo.codebase import FIX, Edit, project_files


def run_suite(folder: Path) -> dict[str, int]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return counts(done.stdout)


def test_some_tests_fail_before_the_edit_and_none_after_it(tmp_path: Path) -> None:
    for path, text in project_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    before = run_suite(tmp_path)
    broken = tmp_path / FIX.path
    broken.write_text(FIX.apply(broken.read_text(encoding="utf-8")), encoding="utf-8")
    after = run_suite(tmp_path)
    assert before["failed"] == 11
    assert after == {"passed": before["passed"] + 11, "failed": 0}


def test_the_files_are_text_without_leftovers() -> None:
    paths = set(project_files())
    assert {"pyproject.toml", "spans/interval.py", "tests/test_random.py"} <= paths
    assert not any("__pycache__" in path for path in paths)


def test_an_edit_refuses_text_that_is_not_there_once() -> None:
    edit = Edit("a.py", "x", "y")
    assert edit.apply("1 x 2") == "1 y 2"
    for text in ("", "x x"):
        with pytest.raises(ValueError, match=r"a\.py"):
            edit.apply(text)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("...\n91 passed in 1.80s\n", {"passed": 91, "failed": 0}),
        ("11 failed, 80 passed in 1.22s", {"passed": 80, "failed": 11}),
        ("1 failed, 2 passed, 3 errors in 0.1s", {"passed": 2, "failed": 4}),
        ("3 passed, 1 skipped in 0.1s", {"passed": 3, "failed": 0}),
        ("no tests ran in 0.00s", {"passed": 0, "failed": 1}),
        ("", {"passed": 0, "failed": 1}),
    ],
)
def test_counts_are_read_from_the_last_line(output: str, expected: dict[str, int]) -> None:
    assert counts(output) == expected
