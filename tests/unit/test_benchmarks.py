"""The benchmark runner's contract."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from benchmarks.__main__ import BENCHMARKS, KEYS, main
from benchmarks.cpu_box import median_interval
from benchmarks.machine import machine


def install(monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]) -> None:
    module = ModuleType("benchmarks.hop")
    module.run = lambda: result  # type: ignore[attr-defined]  # the module is made here
    monkeypatch.setitem(sys.modules, "benchmarks.hop", module)


def result(*, holds: bool) -> dict[str, Any]:
    return {**dict.fromkeys(KEYS, 1), "name": "hop", "holds": holds}


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_the_claim_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], holds: bool, code: int
) -> None:
    install(monkeypatch, result(holds=holds))
    assert main(["hop", "--json"]) == code
    line, last = capsys.readouterr().out.splitlines()
    assert ("DOES NOT HOLD" in line) is not holds
    assert json.loads(last) == result(holds=holds)


def test_an_incomplete_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, {"name": "hop", "value": 1})
    with pytest.raises(KeyError, match="returned no unit, reach"):
        main(["hop"])


@pytest.mark.parametrize("arguments", [["nonsense"], ["hop", "--swerex"]])
def test_an_unknown_name_or_a_foreign_option_is_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def test_the_machine_is_described() -> None:
    described = machine()
    assert described["cores"] >= 1
    assert described["memory_gib"] > 0
    assert described["cpu"]
    json.dumps(described)


def test_the_interval_of_a_median() -> None:
    assert median_interval([float(number) for number in range(1, 21)]) == (6.0, 15.0)
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0), "too few to leave any out"
