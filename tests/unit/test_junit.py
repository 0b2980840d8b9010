"""What pytest's report says, also when it is hostile."""

from __future__ import annotations

import pytest

from tangram_tasks.tools import junit

REPORT = b"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">
<testcase classname="tests.test_it" name="test_ok[1]" file="tests/test_it.py" line="3" time="0.25" />
<testcase classname="tests.test_it.TestBox.TestIn" name="test_no" file="tests/test_it.py" time="0.5">
  <failure message="AssertionError: assert 1 == 2">def test_no(): ... AssertionError: assert 1 == 2</failure></testcase>
<testcase classname="tests.test_it" name="test_late" file="tests/test_it.py" time="1" />
<testcase classname="tests.test_it" name="test_late" file="tests/test_it.py" time="1">
  <error message="down">t</error></testcase>
<testcase classname="tests.test_it" name="test_x" time="nan"><skipped type="pytest.xfail" message="known" /></testcase>
<testcase classname="" name="tests.test_bad" time="0"><error message="collection failure">SyntaxError</error></testcase>
<testcase classname="m" name="s" time="0"><skipped type="pytest.skip" message="why" /></testcase>
</testsuite></testsuites>"""


def test_outcomes_ids_and_messages() -> None:
    parsed = junit.parse_junit(REPORT)
    counts = {name: parsed[name] for name in ("passed", "failed", "errors", "skipped", "xfailed")}
    assert counts == {"passed": 1, "failed": 1, "errors": 2, "skipped": 1, "xfailed": 1}
    assert parsed["problem"] is None
    assert parsed["duration"] == 2.75
    tests = {test["id"]: test for test in parsed["tests"]}
    assert tests["tests/test_it.py::test_ok[1]"] == {
        "id": "tests/test_it.py::test_ok[1]",
        "outcome": "passed",
        "duration": 0.25,
    }
    failed = tests["tests/test_it.py::TestBox::TestIn::test_no"]
    assert (failed["outcome"], failed["message"]) == ("failed", "def test_no(): ... AssertionError: assert 1 == 2")
    assert tests["tests/test_it.py::test_late"] == {
        "id": "tests/test_it.py::test_late",
        "outcome": "error",
        "duration": 2.0,
        "message": "down\nt",
    }
    assert tests["tests.test_bad"]["message"] == "collection failure\nSyntaxError"
    assert tests["tests.test_it::test_x"]["duration"] == 0.0


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (b"", "did not write it"),
        (b"<testsuites>", "no element found"),
        (b"\xff\xfe nonsense", "no report of single tests"),
        (b'<!DOCTYPE x [<!ENTITY a "aaaa">]><testsuites>&a;</testsuites>', "declares entities"),
        (b" " * (junit.MOST_BYTES + 1), "larger than"),
    ],
)
def test_a_report_that_cannot_be_read_is_said(report: bytes, problem: str) -> None:
    parsed = junit.parse_junit(report)
    assert problem in parsed["problem"]
    assert (parsed["passed"], parsed["tests"]) == (0, [])


def test_a_long_report_is_cut() -> None:
    rows = b"".join(b'<testcase classname="m" name="t%d" time="0"/>' % n for n in range(junit.MOST_TESTS + 1))
    parsed = junit.parse_junit(b"<s>" + rows + b"</s>")
    assert len(parsed["tests"]) == junit.MOST_TESTS
    assert parsed["passed"] == junit.MOST_TESTS + 1
    assert "only the first" in parsed["problem"]
    failed = junit.parse_junit(b"<s><testcase><failure>" + b"x" * 9999 + b"</failure></testcase></s>")
    assert len(failed["tests"][0]["message"]) < 3000
