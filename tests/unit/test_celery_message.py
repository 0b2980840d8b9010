from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from scheduler.envelope import BadMessage, parse
from tangram_tasks import TangramApp
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.wire import GrantHeader


@pytest.fixture(scope="module")
def published() -> str:
    app, producer = TangramApp("unit", broker="redis://127.0.0.1:1/0", set_as_current=False), EnvelopeProducer()

    @app.action(name="t.message", api="noop")
    def add(x: int, y: int) -> int:
        return x + y

    add.apply_async((1, 2), producer=producer)
    return producer.take()


@pytest.fixture
def content(published: str) -> dict[str, Any]:
    """Return a message as the client publishes it."""
    message: dict[str, Any] = json.loads(published)
    return message


def body(*parts: Any) -> str:
    return base64.b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("id", ""),
        ("id", 7),
        ("task", None),
        ("timelimit", [1]),
        ("timelimit", ["soon", None]),
        ("timelimit", [True, None]),
        ("timelimit", [-1, None]),
        ("retries", "2"),
        ("retries", -1),
        ("eta", "tomorrow"),
        ("expires", 5),
        ("group", []),
        ("group_index", 1.5),
        ("ignore_result", "yes"),
        ("stamps", []),
        ("compression", "application/x-gzip"),
        ("headers", ["odd"]),
        ("callbacks", []),  # belongs into the body; here it would replace the body's
        ("update", None),  # a method of Celery's request
        ("tangram", None),
        ("tangram_grant", {"id": 1}),
    ],
)
def test_wrong_header_is_refused(content: dict[str, Any], header: str, value: object) -> None:
    content["headers"][header] = value
    with pytest.raises(BadMessage, match=header if header not in {"id", "tangram", "tangram_grant"} else None):
        parse(json.dumps(content))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content-type", "application/x-python-serialize"),
        ("content-encoding", "latin-1"),
        ("content-encoding", None),
        ("body", None),
        ("body", "not base64"),
        ("body", body([1, 2], {})),
        ("body", body({}, {}, {})),
        ("body", body([1, 2], {}, {"callbacks": "all"})),
        ("body", body([1, 2], {}, {"chord": {"options": {}}})),
        ("body", body([1, 2], {}, {"odd": 1})),
        ("properties", []),
        ("properties", {"body_encoding": "rot13"}),
        ("properties", {"reply_to": {}}),
    ],
)
def test_wrong_message_is_refused(content: dict[str, Any], field: str, value: object) -> None:
    content[field] = value
    with pytest.raises(BadMessage) as refused:
        parse(json.dumps(content))
    assert refused.value.action == content["headers"]["id"], "its caller can be told"


def test_worker_gets_properties_of_the_schedulers_making(content: dict[str, Any]) -> None:
    content["properties"] |= {"delivery_info": True, "delivery_tag": [], "priority": "x", "odd": 1}
    grant = GrantHeader(id="g1", node="n", units=1, attempt=1, granted_at=0.0)
    copy = json.loads(parse(json.dumps(content)).granted(grant))
    assert copy["properties"] == {
        "correlation_id": content["headers"]["id"],
        "reply_to": content["properties"]["reply_to"],
        "body_encoding": "base64",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": ADMISSION_QUEUE},
        "priority": 0,
        "delivery_tag": "g1",
    }


@pytest.mark.parametrize(
    "headers",
    [{"odd": 1, "headers": {"odd": 1}}, {"headers": None}, {"expires": "9999-12-31T23:59:59"}],
    ids=["twice, as tracers do", "none", "late"],
)
def test_headers_that_celery_and_its_extensions_send_pass(content: dict[str, Any], headers: dict[str, Any]) -> None:
    content["headers"] |= headers
    grant = GrantHeader(id="g1", node="n", units=1, attempt=1, granted_at=0.0)
    copy = json.loads(parse(json.dumps(content)).granted(grant))
    assert {name: copy["headers"][name] for name in headers} == headers


def test_what_clients_publish_passes(content: dict[str, Any]) -> None:
    envelope = parse(json.dumps(content))
    assert (envelope.task, envelope.try_number, envelope.eta, envelope.expires) == ("t.message", (0, 0), None, None)
