"""Figures, ratios, the picture and the search for the smallest cluster."""

from __future__ import annotations

from math import inf
from xml.etree import ElementTree

import pytest

from compose.simulate.outcome import Finished, Gauge, Outcome
from compose.simulate.picture import load_picture
from compose.simulate.results import Run, summary
from compose.simulate.tables import tables
from compose.simulate.target import MOST_NODES, smallest
from tangram_tasks.errors import Infeasible


def outcome(*acts: int, step: int = 1000, units: int = 1) -> Outcome:
    """Return a run on 4 cores whose actions waited half their completion time."""
    made = Outcome({"cpu": 4}, step=step)
    made.gauges["cpu"] = Gauge()
    made.gauges["cpu"].change(0, units, 2)
    made.gauges["cpu"].change(step // 2, -units, -2)
    for act in acts:
        made.finished.append(Finished("tool", "cpu", act // 2, 0, act - act // 2, units * (act - act // 2)))
    return made


def run(policy: str, seed: int, *acts: int, step: int = 1000) -> Run:
    return Run.of(policy, 8, seed, outcome(*acts, step=step))


def test_figures_of_a_run() -> None:
    made = run("paper", 1, 100, 300)
    assert (made.all.n, made.all.act.mean, made.all.queue_s, made.all.exec_s) == (2, 0.2, 0.1, 0.1)
    assert made.all.units == 1.0
    assert made.use["cpu"].granted == 1 * 500 / (4 * 1000)
    assert made.use["cpu"].reserved == made.use["cpu"].granted
    assert made.tasks["tool"] == made.all


def test_reserved_counts_what_nobody_else_could_have() -> None:
    made = outcome(100)
    made.reserved["cpu"] = 4 * 800
    assert Run.of("static", 8, 1, made).use["cpu"].reserved == 0.8


def test_ratios_pair_seeds_and_are_geometric() -> None:
    runs = [
        run("paper", 1, 100),
        run("paper", 2, 400),
        run("live", 1, 50, step=2000),
        run("live", 2, 800, step=500),
    ]
    reference, other = summary(runs)
    assert reference.ratios is not None
    assert (reference.ratios.act, reference.ratios.step) == (1.0, 1.0)
    assert other.ratios is not None
    assert other.ratios.act == pytest.approx((0.5 * 2) ** 0.5)
    assert other.ratios.step == pytest.approx((2 * 0.5) ** 0.5)
    assert other.seeds == 2
    assert other.act == pytest.approx(0.425)
    assert other.act_spread == pytest.approx(0.375)


def test_without_the_reference_there_are_no_ratios() -> None:
    (row,) = summary([run("live", 1, 100)])
    assert row.ratios is None
    times, shares = tables("coding", [row])
    assert [times.row_count, shares.row_count] == [1, 1]


def test_the_picture_is_xml_and_shows_every_policy() -> None:
    text = load_picture("coding <1>", "cpu", {"paper": outcome(100), "live & co": outcome(50, step=400)})
    root = ElementTree.fromstring(text)
    words = [element.text for element in root.iter() if element.text]
    for word in ("coding <1>", "paper", "live & co", "1 s", "0 s"):
        assert word in words
    assert len([element for element in root.iter() if element.tag.endswith("polygon")]) == 2


def test_the_area_of_the_picture_is_the_share_of_units() -> None:
    # One of four cores for half of the time: the polygon's heights average to an eighth.
    text = load_picture("t", "cpu", {"paper": outcome(100)})
    polygon = next(element for element in ElementTree.fromstring(text).iter() if element.tag.endswith("polygon"))
    points = [tuple(map(float, point.split(","))) for point in polygon.attrib["points"].split()]
    bottom = points[0][1]
    heights = [bottom - y for _, y in points[1:-1]]
    assert sum(heights) / len(heights) == pytest.approx(64 / 8, rel=0.02)


@pytest.mark.parametrize("needed", [1, 2, 3, 17, 100])
def test_the_smallest_number_of_nodes_is_found(needed: int) -> None:
    answer = smallest(lambda nodes: 10.0 * needed / nodes, 10.0)
    assert answer.nodes == needed
    assert answer.value == pytest.approx(10.0)
    assert len(answer.tried) <= 2 * needed.bit_length() + 3


def test_a_target_below_what_any_number_of_nodes_gives_is_out_of_reach() -> None:
    answer = smallest(lambda nodes: max(3.0, 10.0 / nodes), 2.0)
    assert (answer.nodes, answer.value) == (None, 3.0)
    assert max(answer.tried) < MOST_NODES


def test_too_small_clusters_are_skipped_and_a_workload_that_fits_none_is_said() -> None:
    def measure(nodes: int) -> float:
        if nodes < 5:
            raise Infeasible("too small")
        return 1.0

    assert smallest(measure, 2.0).nodes == 5

    def never(nodes: int) -> float:
        raise Infeasible("too small")

    answer = smallest(never, 2.0)
    assert (answer.nodes, answer.value) == (None, inf)
