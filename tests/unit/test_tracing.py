"""One trace from publish to the end of the body, through the hop; and nothing without a provider or the package."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from celery.app.task import Context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from monitoring.tracer import trace_admissions
from scheduler.entries import Entry
from scheduler.envelope import parse
from scheduler.facts import Granted
from tangram_tasks import TangramApp, tracing
from tangram_tasks.context import ActionContext
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.wire import ActionHeader, GrantHeader
from workers.node import Applied
from workers.recollection import Recollection
from workers.runtime import Runtime


class FakeNode:
    name = "api-1"

    @contextlib.contextmanager
    def apply(self, action: str, header: ActionHeader, grant: GrantHeader) -> Iterator[Applied]:
        context = type("Context", (), {"deadline": float("inf")})()
        yield Applied(cast("ActionContext", context))


class FakeClaims:
    def holds(self, grant: str) -> bool:
        return True


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("test"))
    return exporter


def publish() -> str:
    app = TangramApp("client", broker="redis://127.0.0.1:1/0")
    app.remote_action("t.call", api="noop")
    with EnvelopeProducer() as producer:
        app.send_task("t.call", producer=producer, ignore_result=True)
        return producer.take()


def hop(raw: str) -> Mapping[str, Any]:
    """Grant a message; returns the headers of the copy that the node gets."""
    envelope = parse(raw)
    grant = GrantHeader(id="1-1-a", node="api-1", units=1, granted_at=envelope.header.published_at + 0.5)
    trace_admissions(Granted(Entry(1, envelope, 0), grant))
    headers: Mapping[str, Any] = json.loads(envelope.granted(grant))["headers"]
    return headers


def run(headers: Mapping[str, Any]) -> None:
    claims: Any = FakeClaims()
    anything: Any = FakeNode(), claims, Recollection(claims, "n", "g")
    with Runtime(*anything).resources(Context(dict(headers))), trace.get_tracer("user").start_as_current_span("tool"):
        pass


def test_one_trace_through_the_hop(spans: InMemorySpanExporter) -> None:
    run(hop(publish()))
    found: dict[str, ReadableSpan] = {span.name: span for span in spans.get_finished_spans()}
    assert list(found) == ["publish t.call", "admission t.call", "start t.call", "exec t.call"]
    parent = found["publish t.call"].context
    for name in list(found)[1:]:
        span = found[name]
        assert span.context.trace_id == parent.trace_id
        assert span.parent is not None
        assert span.parent.span_id == parent.span_id
    admission = found["admission t.call"]
    assert admission.end_time is not None
    assert admission.start_time is not None
    assert admission.end_time - admission.start_time == pytest.approx(0.5e9, rel=1e-3)
    assert dict(admission.attributes or {})["tangram.node"] == "api-1"


def test_without_a_provider_nothing_is_recorded_and_nothing_breaks() -> None:
    run(hop(publish()))


def test_without_the_package_nothing_is_recorded_and_nothing_breaks() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from tangram_tasks import tracing\n"
        "headers = {}\n"
        "with tracing.publishing('t', headers), tracing.executing('t', 'a', headers):\n"
        "    tracing.record('n', headers, 1, 2)\n"
        "assert (tracing.TRACING, headers) == (False, {})"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
