from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tangram_tasks.action import ActionSpec, declare
from tangram_tasks.elasticity import Amdahl, Fixed, Table
from tangram_tasks.errors import InvalidAction


def test_declare_reads_what_people_write() -> None:
    spec = declare(cpu=(1, 2, 4), memory="2GiB", elasticity=Amdahl(serial=0.5), duration=8, timeout=120)
    assert spec.demand.sizes == {"cpu": (1, 2, 4), "memory": (2048,)}
    assert spec.demand.key == "cpu"
    assert dict(spec.demand.minimum) == {"cpu": 1, "memory": 2048}
    assert spec.durations() == (8.0, 6.0, 5.0)


def test_key_is_the_elastic_resource_or_the_scarcest() -> None:
    assert declare(cpu=1, gpu=(1, 2)).demand.key == "gpu"
    assert declare(cpu=(1, 2), gpu=1).demand.key == "cpu"
    assert declare(cpu=1, gpu=1).demand.key == "gpu"
    assert declare(cpu=1, api="search").demand.key == "api:search"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must ask for something"),
        ({"cpu": 0}, "must rise from 1"),
        ({"cpu": (2, 1)}, "must rise from 1"),
        ({"cpu": ()}, "must rise from 1"),
        ({"cpu": (1, 2), "gpu": (1, 2)}, "only one"),
        ({"cpus": 1}, "unknown resource or option: cpus"),
        ({"cpu": 1, "memory": "lots"}, "cannot read the memory size"),
        ({"cpu": 1, "timeout": 0}, "timeout"),
        ({"cpu": 1, "duration": -1}, "duration"),
        ({"gpu": 1, "sandbox": True}, "must ask for cpu"),
        ({"cpu": 1, "service": "x"}, "must ask for gpu"),
        ({"cpu": 1, "on_lost": "ignore"}, "on_lost"),
    ],
)
def test_wrong_declarations_say_why(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAction, match=message):
        declare(**options)


def test_override_is_checked_again() -> None:
    spec = declare(cpu=2, timeout=5)
    assert spec.override(timeout=9.0).timeout == 9.0
    assert spec.override() is spec
    with pytest.raises(InvalidAction, match="timeout"):
        spec.override(timeout=-1)


@pytest.mark.parametrize("speedup", [{}, {0: 1.0}, {1: 1.0, 2: 0.9}, {1: 1.0, 2: 2.5}, {1: 0.0}])
def test_tables_that_fall_or_beat_linear_are_refused(speedup: dict[int, float]) -> None:
    with pytest.raises(ValidationError):
        Table(speedup=speedup)


def test_a_table_must_cover_the_smallest_size() -> None:
    with pytest.raises(InvalidAction, match="starts at 2 units"):
        declare(cpu=(1, 2), elasticity=Table(speedup={2: 1.5}))


def test_no_curve_makes_an_action_last_for_ever() -> None:
    with pytest.raises(InvalidAction, match="with its elasticity it would take inf s"):
        declare(cpu=(1, 2), elasticity=Table(speedup={1: 5e-324, 2: 1.0}))


@given(st.floats(0, 1), st.integers(1, 64), st.floats(0.01, 1000))
def test_amdahl_is_amdahls_law(serial: float, units: int, base: float) -> None:
    curve = Amdahl(serial=serial)
    assert 0 < curve.efficiency(units) <= 1
    assert math.isclose(curve.duration(base, units), base * (serial + (1 - serial) / units), rel_tol=1e-9)


@given(st.floats(0.01, 1000), st.integers(1, 64))
def test_fixed_never_gains(base: float, units: int) -> None:
    assert math.isclose(Fixed().duration(base, units), base)


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=6, unique=True).map(sorted),
    st.sampled_from([Fixed(), Amdahl(serial=0.1), Table(speedup={1: 1.0, 4: 3.0})]),
)
def test_specs_survive_the_wire(sizes: list[int], curve: Fixed | Amdahl | Table) -> None:
    spec = declare(cpu=sizes, elasticity=curve)
    assert ActionSpec.model_validate_json(spec.model_dump_json()) == spec
