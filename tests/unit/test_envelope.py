from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.estimates import Estimates
from scheduler.entries import Entries, Entry
from scheduler.envelope import BadMessage, parse
from scheduler.nodes import NodeBook
from tangram_tasks import TangramApp
from tangram_tasks.keys import ADMISSION_QUEUE
from tangram_tasks.publisher import EnvelopeProducer
from tangram_tasks.wire import GRANT_HEADER, GrantHeader, NodeRecord

GRANT = GrantHeader(id="1-1-x", node="api-1", units=1, granted_at=1.0)


@pytest.fixture(scope="module")
def raw() -> str:
    app = TangramApp("unit", broker="redis://127.0.0.1:1/0", set_as_current=False)

    @app.action(name="unit.add", api="search", max_queue=2.0)
    def add(x: int) -> int:
        return x

    producer = EnvelopeProducer()
    add.apply_async((1,), producer=producer, countdown=10, link=add.s())
    return producer.envelope


def test_parse_reads_what_the_client_wrote(raw: str) -> None:
    envelope = parse(raw)
    assert envelope.task == "unit.add"
    assert envelope.header.spec.demand.key == "api:search"
    assert envelope.grant is None
    assert envelope.eta is not None
    assert envelope.context["callbacks"][0]["task"] == "unit.add"


def test_the_granted_copy_comes_home_and_its_eta_is_spent(raw: str) -> None:
    copy = json.loads(parse(raw).granted(GRANT))
    assert copy["headers"]["eta"] is None
    assert copy["headers"][GRANT_HEADER]["id"] == "1-1-x"
    assert copy["properties"]["delivery_info"]["routing_key"] == ADMISSION_QUEUE
    assert copy["body"] == json.loads(raw)["body"], "the body is not touched"
    assert parse(json.dumps(copy)).grant == GRANT


def test_readmission_counts_attempts_and_drops_the_grant(raw: str) -> None:
    again = parse(parse(parse(raw).granted(GRANT)).readmitted(2))
    assert again.grant is None
    assert again.header.attempts == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_cleanly(payload: bytes) -> None:
    with pytest.raises(BadMessage):
        parse(payload)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda x: st.dictionaries(st.text(max_size=9), x)))
def test_any_header_is_refused_cleanly(content: Any) -> None:
    message = {"headers": content, "body": "", "properties": {}, "content-type": "application/json"}
    with pytest.raises(BadMessage):
        parse(json.dumps(message))


def test_entries_know_an_action_once_and_find_it_by_grant(raw: str) -> None:
    entries, entry = Entries(), Entry(1, parse(raw), 0)
    assert entries.add(entry)
    assert not entries.add(Entry(2, parse(raw), 0)), "a second copy"
    entries.set_timer(50, entry.envelope.action, "eta")
    assert entries.due(49) == []
    assert entries.due(50) == [(entry, "eta")]
    action = entry.as_action(0, Estimates())
    assert (action.key, action.sizes, action.deadline) == ("api:search", (1,), 2000)


def record(name: str, beat: float, generation: str = "g1") -> NodeRecord:
    return NodeRecord(node=name, kind="cpu", generation=generation, capacity={"cpu": 1}, beat=beat)


def names(records: list[NodeRecord]) -> list[str]:
    return [found.node for found in records]


def test_nodes_join_fall_silent_and_are_replaced() -> None:
    book = NodeBook(timeout=3.0)
    lost, joined = book.update({"a": record("a", 10.0), "stale": record("stale", 1.0)}, 10.0)
    assert (names(lost), names(joined)) == ([], ["a"])
    lost, joined = book.update({"a": record("a", 10.0)}, 13.1)
    assert (names(lost), names(joined)) == (["a"], [])
    book.update({"a": record("a", 14.0)}, 14.0)
    lost, joined = book.update({"a": record("a", 14.5, "g2")}, 14.5)
    assert (names(lost), names(joined)) == (["a"], ["a"]), "a new process under the same name"
    assert book.generation("a") == "g2"
