"""What a session's shell says, and what a script might make it seem to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent.shell_driver import News, driver, parse_news


def test_news_of_the_loop() -> None:
    message = b"tag/main/a-1 130\n0m0.500s 1m0.250s\n0m0,125s 0m0,125s\n/work/with\nnewline"
    assert parse_news(message) == News("tag/main/a-1", 130, 61.0, "/work/with\nnewline")


@pytest.mark.parametrize(
    "message", [b"", b"tag", b"tag x\n\n\n/", b"tag 0\n\n/", b"tag 0\n\n\nhere", b"t " + b"9" * 5000]
)
def test_anything_else_is_none(message: bytes) -> None:
    assert parse_news(message) is None


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_no_message_is_an_error(head: bytes, times: bytes, cwd: bytes) -> None:
    parse_news(head + b" 0\n" + times + b"\n" + times + b"\n/" + cwd)
    parse_news(b"tag 0\n" + b"9" * 5000 + b"m1.0s\n\n/")


def test_the_loop_is_told_its_descriptors() -> None:
    text = driver(201, 202)
    assert ">&201" in text
    assert "/proc/self/fd/202" in text
    assert "CONTROL" not in text
