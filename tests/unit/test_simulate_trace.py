"""Batches from CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose.simulate.trace import read_trace
from compose.simulate.work import Turn, Work
from tangram_tasks.errors import ConfigurationError

HEADING = "trajectory,turn,gap_s,task,duration_s,key,sizes,serial,malleable,service,start_s\n"


def write(tmp_path: Path, *rows: str, heading: str = HEADING) -> Path:
    file = tmp_path / "batch.csv"
    file.write_text(heading + "".join(row + "\n" for row in rows), encoding="utf-8")
    return file


def test_rows_become_turns(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "a,1,2.5,read,0.1,,,,,,7",
        "a,1,2.5,read,0.2,,,,,,7",
        "b,1,0,score,3,gpu,2|4,0,,model,",
        "a,2,1,test,8,cpu,2|4|8,0.5,true,,7",
    )
    batch = read_trace(file)
    first, second = batch.plans
    assert (batch.name, first.id, first.start, first.memory) == ("batch", "a", 7000, 1024)
    assert first.turns[0] == Turn(2500, (Work("read", "cpu", (1,), (100,)), Work("read", "cpu", (1,), (200,))))
    # 8 s on two cores with half of it serial: 32/3 core-s, so 8, 6.67 and 6 s.
    assert first.turns[1].actions[0] == Work("test", "cpu", (2, 4, 8), (8000, 6667, 6000), malleable=True)
    assert second.memory is None
    assert second.turns[0].actions[0] == Work("score", "gpu", (2, 4), (3000, 1500), service="model")


def test_columns_with_a_default_may_be_absent(tmp_path: Path) -> None:
    file = write(tmp_path, "a,1,0,read,0.1", heading="trajectory,turn,gap_s,task,duration_s\n")
    assert read_trace(file).actions == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,1,-1,read,0.1,,,,,,", "line 3, column gap_s"),
        ("a,1,0,read,soon,,,,,,", "line 3, column duration_s"),
        ("a,1,0,read,1,disk,,,,,", "line 3, column key"),
        (",1,0,read,1,,,,,,", "line 3, column trajectory: Field required"),
        ("a,1,0,read,1,cpu,2|x,,,,", "line 3, column sizes"),
        ("a,1,0,read,1,cpu,4|2,,,,", "line 3, column sizes: .*must rise"),
        ("a,1,0,read,1,cpu,0|2,,,,", "line 3, column sizes: .*must rise"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: str, said: str) -> None:
    file = write(tmp_path, "a,1,0,read,0.1,,,,,,", row)
    with pytest.raises(ConfigurationError, match=said):
        read_trace(file)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no rows"):
        read_trace(write(tmp_path))
    with pytest.raises(ConfigurationError, match="cannot read the trace"):
        read_trace(tmp_path / "missing.csv")
    with pytest.raises(ConfigurationError, match="column colour: Extra inputs"):
        read_trace(write(tmp_path, "a,1,0,read,0.1,red", heading="trajectory,turn,gap_s,task,duration_s,colour\n"))
