"""What pytest's JUnit report says. Pure. The report was written in a sandbox: it may be anything."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

MOST_BYTES = 16 << 20
MOST_TESTS = 5000
LONGEST_MESSAGE = 2000  # characters
_RANK = ("passed", "skipped", "xfailed", "failed", "errors")
_LONGEST_ID = 500


def parse_junit(report: bytes) -> dict[str, Any]:
    """Return counts, duration, tests and problem, as `tangram_tasks.tools.run_tests` documents them.

    Args:
        report: the file's content; empty if there is none.
    """
    try:
        cases = _cases(report)
    except (ValueError, ET.ParseError) as error:
        return {
            **dict.fromkeys(_RANK, 0),
            "duration": 0.0,
            "tests": [],
            "problem": f"no report of single tests: {error}",
        }
    tests: dict[str, dict[str, Any]] = {}
    for case in cases:
        test = _test(case)
        known = tests.setdefault(test["id"], test)
        if known is not test:  # one entry for the call, one for an error while cleaning up
            worse = max(known, test, key=lambda one: _RANK.index(one["outcome"]))
            tests[test["id"]] = {**worse, "duration": known["duration"] + test["duration"]}
    counts = Counter(test["outcome"] for test in tests.values())
    cut = f"only the first {MOST_TESTS} of {len(tests)} tests are listed" if len(tests) > MOST_TESTS else None
    return {
        **{outcome: counts[outcome] for outcome in _RANK},
        "duration": round(sum(test["duration"] for test in tests.values()), 3),
        "tests": [_singular(test) for test in tests.values()][:MOST_TESTS],
        "problem": cut,
    }


def _cases(report: bytes) -> list[ET.Element]:
    if not report:
        raise ValueError("pytest did not write it")
    if len(report) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    if b"<!DOCTYPE" in report or b"<!ENTITY" in report:  # pytest writes none; they can blow up the parser
        raise ValueError("it declares entities")
    return list(ET.fromstring(report).iter("testcase"))


def _test(case: ET.Element) -> dict[str, Any]:
    outcome, message = "passed", ""
    for tag, name in (("skipped", "skipped"), ("failure", "failed"), ("error", "errors")):
        found = case.find(tag)
        if found is not None:
            outcome = "xfailed" if found.get("type") == "pytest.xfail" else name
            message = _message(found)
    test = {"id": _identity(case)[:_LONGEST_ID], "outcome": outcome, "duration": _seconds(case.get("time", ""))}
    return {**test, "message": message} if outcome != "passed" else test


def _identity(case: ET.Element) -> str:
    """Return pytest's id of the test: `tests/test_it.py::TestClass::test_name`."""
    file, name, module = case.get("file", ""), case.get("name", ""), case.get("classname", "")
    if not file:
        return "::".join(part for part in (module, name) if part)
    classes = module.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join(part for part in (file, *classes.split("."), name) if part)


def _message(found: ET.Element) -> str:
    head, detail = found.get("message", ""), found.text or ""
    text = detail if head and head in detail else "\n".join(part for part in (head, detail) if part)
    return text if len(text) <= LONGEST_MESSAGE else "... " + text[-LONGEST_MESSAGE:]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < 1e9 else 0.0


def _singular(test: dict[str, Any]) -> dict[str, Any]:
    return {**test, "outcome": "error"} if test["outcome"] == "errors" else test
