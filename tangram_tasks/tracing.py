"""OpenTelemetry spans of an action: publish, then admission, start and exec in the same trace.

Nothing of this happens unless the package `opentelemetry-api` is installed and somebody has set a tracer provider up.
The context rides in the message's headers, which every hop hands on as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:
    TRACING = False
else:
    TRACING = True

_NAME = "tangram"
#: Headers of the W3C standard.
_HEADERS = ("traceparent", "tracestate")


@contextmanager
def publishing(task: str, headers: MutableMapping[str, Any]) -> Iterator[None]:
    """Make a span of one publish, and let the message carry it."""
    if not TRACING:
        yield
        return
    with _tracer().start_as_current_span(f"publish {task}", kind=trace.SpanKind.PRODUCER):
        propagate.inject(headers)
        yield


@contextmanager
def executing(task: str, action: str, headers: Mapping[str, Any]) -> Iterator[None]:
    """Make a span of the body; spans that it makes itself are below."""
    if not TRACING:
        yield
        return
    with _tracer().start_as_current_span(
        f"exec {task}", _parent(headers), kind=trace.SpanKind.CONSUMER, attributes={"tangram.action": action}
    ):
        yield


def record(name: str, headers: Mapping[str, Any], begin: float, end: float, **facts: str | float) -> None:
    """Make a span of what is over.

    Args:
        name: of the span.
        headers: of the action's message.
        begin: wall clock, seconds.
        end: the same.
        facts: attributes.
    """
    if not TRACING:
        return
    attributes = {f"tangram.{fact}": value for fact, value in facts.items()}
    span = _tracer().start_span(name, _parent(headers), start_time=_nanoseconds(begin), attributes=attributes)
    span.end(_nanoseconds(max(begin, end)))


def _tracer() -> Any:
    return trace.get_tracer(_NAME)


def _parent(headers: Mapping[str, Any]) -> Any:
    carrier = {name: value for name in _HEADERS if isinstance(value := headers.get(name), str)}
    return propagate.extract(carrier)


def _nanoseconds(moment: float) -> int:
    return round(moment * 1e9)
