"""`tangram simulate` on tiny batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compose.cli import cli
from compose.simulate.engine import Engine
from compose.simulate.workloads.registry import find
from scheduler.record import RecordedAdmission, open_record


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *arguments])


def document(*arguments: str) -> dict[str, Any]:
    result = simulate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_policies_side_by_side() -> None:
    found = document("--batch", "8,16", "--policies", "static,fixed:4,paper,live", "--seeds", "2", "--nodes", "1")
    assert found["workload"] == "coding"
    assert len(found["runs"]) == 2 * 4 * 2
    rows = {(row["batch"], row["policy"]): row for row in found["summary"]}
    assert rows[16, "paper"]["ratios"] == {"act": 1.0, "p99": 1.0, "step": 1.0}
    assert rows[16, "static"]["use"]["cpu"]["reserved"] > rows[16, "static"]["use"]["cpu"]["granted"]
    assert rows[8, "live"]["seeds"] == 2
    assert found["cluster"]["8"]["cpu"][0]["count"] == 1


def test_the_same_command_gives_the_same_figures() -> None:
    command = ("--batch", "16", "--policies", "direct", "--workload", "deepsearch", "--seeds", "2")
    assert document(*command) == document(*command)


@pytest.mark.parametrize("workload", ["mopd", "deepsearch", "swe", "coding-long"])
def test_every_workload_runs(workload: str) -> None:
    result = simulate("--workload", workload, "--batch", "8", "--policies", "paper,live")
    assert result.exit_code == 0, result.output
    assert f"{workload}: 8 trajectories" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_report_and_pictures_are_written(tmp_path: Path) -> None:
    result = simulate("--batch", "8", "--policies", "paper,live", "--nodes", "1", "--output", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"report.json", "load-8-cpu.svg"}
    assert json.loads((tmp_path / "out" / "report.json").read_text())["costs_ms"]["cpu"] == 5


def test_the_smallest_cluster() -> None:
    command = ("--batch", "64", "--cores", "32", "--policies", "live,static", "--target-step")
    result = simulate(*command, "200s")
    assert result.exit_code == 0, result.output
    assert "live: 64 trajectories need" in result.stdout
    lines = [json.loads(line) for line in simulate(*command, "200s", "--json").stdout.splitlines()]
    assert [line["policy"] for line in lines] == ["live", "static"]
    assert lines[0]["nodes"] <= lines[1]["nodes"]
    assert lines[0]["seconds"] <= 200


def test_a_target_out_of_reach_exits_with_1() -> None:
    result = simulate("--batch", "8", "--policies", "live", "--target-act", "1ms")
    assert result.exit_code == 1
    assert "do not get there with any number of nodes; the best act seen is" in result.stdout


def test_a_trace_needs_machines(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("trajectory,turn,gap_s,task,duration_s\na,1,1,read,0.5\n")
    refused = simulate("--trace", str(trace))
    assert refused.exit_code == 1
    assert "give --nodes" in refused.output
    assert document("--trace", str(trace), "--nodes", "1", "--cores", "2")["runs"][0]["all"]["n"] == 1


def test_a_cluster_file(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text("[[cpu]]\ncount = 2\ncores = 16\n[[cpu]]\ncores = 64\n")
    found = document("--batch", "8", "--cluster", str(cluster))
    assert found["runs"][0]["use"]["cpu"]["capacity"] == 96
    refused = simulate("--cluster", str(cluster), "--nodes", "3")
    assert refused.exit_code == 1
    assert "leave out --nodes" in refused.output


def test_a_cluster_file_in_yaml(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("cpu:\n- {count: 2, cores: 16}\n- cores: 64\n")
    assert document("--batch", "8", "--cluster", str(cluster))["runs"][0]["use"]["cpu"]["capacity"] == 96
    for wrong, why in (("cpu: [", "cannot read"), ("16", "needs the sections"), ("cpu: [{gears: 2}]", "gears")):
        cluster.write_text(wrong)
        refused = simulate("--cluster", str(cluster))
        assert refused.exit_code == 1
        assert why in refused.output


def test_replay(tmp_path: Path) -> None:
    file, source = tmp_path / "events.jsonl", find("coding")
    with open_record(file) as opened:
        core = RecordedAdmission(opened, "paper", 16, gpu_policy="residency")
        Engine(core, source.cluster(8).resized(1), source.draw("coding", 8, 1, 1.0)).run()
    result = simulate("--replay", str(file))
    assert result.exit_code == 0, result.output
    assert "all the same" in result.stdout
    assert [row["policy"] for row in document("--replay", str(file), "--policies", "paper,live")["summary"]] == [
        "paper",
        "live",
    ]
    file.write_text(file.read_text().replace('"units":1,"lane"', '"units":2,"lane"', 1))
    result = simulate("--replay", str(file))
    assert result.exit_code == 1
    assert "equal decisions: line" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--workload", "nonsense"], 1),
        (["--policies", "nonsense"], 1),
        (["--target-step", "soon"], 1),
        (["--batch", "0"], 2),
        (["--batch", "many"], 2),
        (["--target-act", "1s", "--target-step", "1s"], 2),
        (["--trace", "missing.csv"], 2),
    ],
)
def test_wrong_usage(arguments: list[str], code: int) -> None:
    assert simulate(*arguments).exit_code == code
