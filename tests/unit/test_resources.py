from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tangram_tasks.errors import InvalidAction
from tangram_tasks.resources import ResourceVector, memory_mib, parse_memory

vectors = st.dictionaries(st.sampled_from(["cpu", "gpu", "memory", "api:x"]), st.integers(0, 50)).map(ResourceVector)


def test_fits_plain_examples() -> None:
    assert ResourceVector(cpu=2).fits({"cpu": 2, "gpu": 1})
    assert not ResourceVector(cpu=3).fits({"cpu": 2})
    assert not ResourceVector({"cpu": 1, "api:x": 1}).fits({"cpu": 8})
    assert ResourceVector().fits({})


@given(vectors, vectors)
def test_sum_and_difference_undo_each_other(a: ResourceVector, b: ResourceVector) -> None:
    assert (a + b) - b == a
    assert b.fits(a + b)


def test_taking_more_than_there_is_fails() -> None:
    with pytest.raises(InvalidAction, match="cpu=-1"):
        ResourceVector(cpu=1) - ResourceVector(cpu=2)


def test_zero_amounts_are_dropped() -> None:
    assert ResourceVector(cpu=0) == ResourceVector()
    assert hash(ResourceVector(cpu=0, gpu=1)) == hash(ResourceVector(gpu=1))


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("512MiB", 2**29), ("1.5 GB", 1_500_000_000), (1024, 1024), ("10", 10), ("1k", 1000)],
)
def test_memory_texts(text: str | int, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "2 GiB extra", "0", 0, True, 2.5, None])
def test_memory_that_does_not_parse(text: object) -> None:
    with pytest.raises(InvalidAction):
        parse_memory(text)  # type: ignore[arg-type]  # wrong on purpose


def test_memory_rounds_up_to_mib() -> None:
    assert memory_mib(2**20 + 1) == 2
