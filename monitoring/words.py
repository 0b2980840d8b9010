"""Demands and grants in a few words, for tables and pages."""

from __future__ import annotations

from tangram_tasks.action import Demand


def demand_in_words(demand: Demand) -> str:
    """Return a demand as people read it, for example "cpu=1..8 memory=512"."""
    return " ".join(
        f"{name}={sizes[0]}" if len(sizes) == 1 else f"{name}={sizes[0]}..{sizes[-1]}"
        for name, sizes in sorted(demand.sizes.items())
    )


def grant_in_words(key: str, units: int) -> str:
    """Return what an action holds, for example "cpu=4"; a light action has no units."""
    return f"{key}={units}" if units else "light"
