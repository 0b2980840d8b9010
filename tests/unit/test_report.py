"""The report of a batch, its tables and its picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from rich.console import Console

from monitoring.picture import act_picture
from monitoring.report import BatchReport, Spread, build_report
from monitoring.tables import act_table, comparison_table, ratio, seconds, sizes_table
from tangram_tasks.report import ActionReport

SUITE = ActionReport(
    task="demo.run_suite", node="c", key="cpu", units=4, queue_s=1.0, overhead_s=0.5, exec_s=1.5, cpu_seconds=1.2
)
READ = ActionReport(task="tools.read_file", node="c", key="cpu", units=1, queue_s=0.0, overhead_s=0.01, exec_s=0.01)
SCORE = ActionReport(task="rewards.score", node="g", key="gpu", units=1, overhead_s=1.0, exec_s=1.0, page_ins=2)


def report(name: str = "tangram", **options: object) -> BatchReport:
    arguments: dict[str, object] = {"capacity": {"cpu": 8, "gpu": 1}, "wall_s": 10.0, "cpu_unit": 0.25, **options}
    return build_report(name, [SUITE, SUITE, READ, SCORE], **arguments)  # type: ignore[arg-type]  # a test's shorthand


def test_act_is_split_per_task() -> None:
    suite = report().tasks["demo.run_suite"]
    assert (suite.n, suite.act.mean, suite.queue_s, suite.overhead_s, suite.exec_s) == (2, 3.0, 1.0, 0.5, 1.5)
    assert suite.sizes == {4: 2}
    assert report().act.mean == pytest.approx((3 + 3 + 0.02 + 2) / 4)
    assert report().n == 4


def test_resources_count_granted_unit_seconds_and_cpu_time() -> None:
    cpu = report().resources["cpu"]
    assert cpu.granted == pytest.approx((2 * 4 * 2.0 + 0.02) / 80)
    assert cpu.held == cpu.granted
    assert cpu.busy == pytest.approx(2.4 / (80 * 0.25))
    gpu = report().resources["gpu"]
    assert gpu.granted == pytest.approx(0.2)
    assert gpu.busy is None
    assert report().page_ins == 2


def test_reserved_units_are_held_whatever_is_granted() -> None:
    cpu = report(reserved={"cpu": 60.0}).resources["cpu"]
    assert cpu.held == pytest.approx(0.75)
    assert cpu.granted < cpu.held


def test_an_empty_batch_is_a_report_of_zeros() -> None:
    empty = build_report("none", [], capacity={"cpu": 1}, wall_s=1.0)
    assert (empty.n, empty.act, empty.resources["cpu"].granted) == (0, Spread(), 0.0)


@pytest.mark.parametrize("wrong", [{"wall_s": 0.0}, {"capacity": {"cpu": 0}}])
def test_no_time_or_capacity_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        report("wrong", **wrong)


def test_quantiles_interpolate() -> None:
    spread = Spread.of(range(1, 101))
    assert (spread.mean, spread.p50) == (50.5, 50.5)
    assert spread.p99 == pytest.approx(99.01)
    assert Spread.of([2.0]) == Spread(mean=2.0, p50=2.0, p99=2.0)


def test_a_report_survives_json() -> None:
    assert BatchReport.model_validate_json(report().model_dump_json()) == report()


def text_of(*tables: object) -> str:
    console = Console(width=80, no_color=True, record=True, quiet=False, file=None)
    with console.capture() as capture:
        for table in tables:
            console.print(table)
    return capture.get()


def test_tables_show_the_figures_within_80_columns() -> None:
    static = report("static", wall_s=30.0, reserved={"cpu": 240.0})
    text = text_of(comparison_table(static, report()), act_table(report()), sizes_table(report()))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "30.0 s" in rows["step (batch wall time)"]
    assert "3.0x" in rows["step (batch wall time)"]
    assert "100%" in rows["cpu: held"]
    assert "4 units" in text


@pytest.mark.parametrize(("value", "text"), [(0.0031, "3.1 ms"), (0.42, "0.42 s"), (12.34, "12.3 s"), (118.2, "118 s")])
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


def test_ratio_without_a_base_is_empty() -> None:
    assert (ratio(6, 2), ratio(0, 2), ratio(6, 0)) == ("3.0x", "", "")


def test_the_picture_has_a_bar_for_every_task_of_both_runs() -> None:
    picture = ElementTree.fromstring(act_picture(report("static"), report("tangram <1>")))
    namespace = "{http://www.w3.org/2000/svg}"
    labels = [element.text for element in picture.iter(f"{namespace}text")]
    assert labels.count("run_suite") == 1
    assert labels.count("static") == labels.count("tangram <1>") == 3
    assert len(list(picture.iter(f"{namespace}rect"))) == 1 + 3 + 3 * 2 * 3


def test_the_picture_of_nothing_is_still_a_picture() -> None:
    empty = build_report("none", [], capacity={"cpu": 1}, wall_s=1.0)
    assert ElementTree.fromstring(act_picture(empty, empty)) is not None
