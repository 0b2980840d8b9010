"""The packaged decision vectors, and the command that compares a file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import KEYS
from benchmarks.vectors import PACKAGED, differences, load, main, run


@pytest.mark.parametrize("instance", load(PACKAGED), ids=lambda instance: str(instance["name"]))
def test_policy_paper_decides_as_the_vectors_say(instance: dict[str, Any]) -> None:
    assert differences(instance) == []


def test_the_packaged_vectors_cover_every_kind() -> None:
    kinds = {instance["kind"] for instance in load(PACKAGED)}
    assert len(kinds) == 10
    assert any(group["evicted"] for one in load(PACKAGED) for group in one["expect"]["groups"].values())


def test_all_equal_is_success_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PACKAGED)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["kind", "instances", "equal", "differ"]
    assert rows[-1] == ["all", "12", "12", "0"]


@pytest.mark.parametrize(
    "field",
    [
        "members",
        "later",
        "budget",
        "dp_total_by_prefix",
        "objective_by_kept",
        "kept",
        "evicted",
        "objective",
        "alloc",
        "candidates",
        "decision",
    ],
)
def test_every_field_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str) -> None:
    document = json.loads(PACKAGED.read_text())
    bad = next(one for one in document["instances"] if one["kind"] == "two-keys-evict")
    where = bad["expect"] if field in bad["expect"] else bad["expect"]["groups"]["cpu"]
    where[field] = "something else"
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    assert main([str(path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{bad['name']}: ")
    assert f"{field} is" in last
    assert "not something else" in last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read the vectors file"),
        ("{", "is not JSON"),
        ("[]", "has format None"),
        ('{"format": "other/1"}', "has format 'other/1', not 'tangram-scheduling-vectors/1'"),
        ('{"format": "tangram-scheduling-vectors/1"}', "has no list of instances"),
    ],
)
def test_a_file_that_is_no_vectors_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    path = tmp_path / "vectors.json"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 2
    assert message in capsys.readouterr().err


def test_it_can_run_as_a_benchmark() -> None:
    result = run()
    assert result["holds"]
    assert set(KEYS) == set(result)
