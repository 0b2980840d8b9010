"""The frame format, and what is kept of a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent import frames
from workers.agent.output import Output


@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none()), max_size=5), st.binary(max_size=300))
def test_round_trip_and_no_early_answer(header: dict[str, object], body: bytes) -> None:
    frame = bytearray(frames.encode(header, body))
    assert frames.decode(frame) == (header, body)
    assert frames.decode(frame[:-1]) is None
    assert frames.decode(frame[:3]) is None


def test_oversize_is_refused_on_both_sides_before_the_bytes_come() -> None:
    with pytest.raises(frames.FrameTooLarge, match="is over"):
        frames.encode({}, bytes(frames.MAX_BODY + 1))
    with pytest.raises(frames.FrameTooLarge):
        frames.decode(bytearray(frames.FRAME.pack(frames.MAX_HEADER + 1, 0)))


def test_a_header_that_is_no_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        frames.decode(bytearray(frames.FRAME.pack(4, 0) + b"nope"))


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(min_value=2, max_value=64))
def test_output_keeps_both_ends(chunks: list[bytes], cap: int) -> None:
    output = Output(cap)
    for chunk in chunks:
        output.add(chunk)
    everything, half = b"".join(chunks), cap // 2
    kept = output.kept()
    assert len(kept) <= cap
    assert output.truncated == (len(everything) > 2 * half)
    if not output.truncated:
        assert kept == everything
    else:
        assert kept == everything[:half] + everything[-half:]
