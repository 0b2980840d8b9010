"""A watcher that makes a span of every admission: from publish to grant."""

from __future__ import annotations

from scheduler.facts import Fact, Granted
from tangram_tasks.tracing import record


def trace_admissions(fact: Fact) -> None:
    """Hear a fact; only grants matter."""
    if isinstance(fact, Granted):
        envelope, grant = fact.entry.envelope, fact.grant
        published = envelope.header.published_at or grant.granted_at
        headers = envelope.content["headers"]
        record(
            f"admission {envelope.task}", headers, published, grant.granted_at,
            action=envelope.action, node=grant.node, units=grant.units,
        )  # fmt: skip
