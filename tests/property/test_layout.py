"""Whatever was asked for and runs: hints leave busy devices and what is wanted alone, and come to rest."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings

from scheduler.core.gpu_node import GpuNode
from scheduler.core.layout import Layout
from tests.support.core import action

SIZES = {"a": (1, 2, 4, 8), "b": (1,), "c": (2, 4), "d": (4,)}
services = st.sampled_from(sorted(SIZES))


def _held(nodes: dict[str, GpuNode]) -> Counter[str]:
    return Counter(one.service for node in nodes.values() for one in node.devices if one.service is not None)


@settings(max_examples=200, deadline=None)
@given(
    widths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    asked=st.lists(services, max_size=40),
    ran=st.lists(st.tuples(services, st.integers(0, 2), st.booleans()), max_size=12),
)
def test_hints_take_only_what_is_idle_and_to_spare(
    widths: list[int], asked: list[str], ran: list[tuple[str, int, bool]]
) -> None:
    nodes = {f"g{place}": GpuNode(f"g{place}", width) for place, width in enumerate(widths)}
    for node in nodes.values():
        node.services = frozenset(SIZES)
    layout = Layout(nodes)
    for place, service in enumerate(asked):
        sizes = SIZES[service]
        layout.note(action(f"a{place}", key="gpu", sizes=sizes, durations=[1000] * len(sizes), service=service))
    for place, (service, index, ends) in enumerate(ran):
        warmth = nodes[f"g{index % len(widths)}"].devices
        warmth.occupy(f"r{place}", service, SIZES[service][0], layout.spare())
        if ends:
            warmth.leave(f"r{place}")
    before, spare = _held(nodes), layout.spare()
    busy = [(one, one.service) for node in nodes.values() for one in node.devices if one.action is not None]
    hints = layout.hints()
    assert all(one.service == service for one, service in busy)
    after = _held(nodes)
    assert all(after[name] >= min(count, count - spare[name]) for name, count in before.items())
    assert sum(len(hint.devices) for hint in hints) <= sum(widths)
    assert layout.hints() == [], "what was done is not hinted again"
