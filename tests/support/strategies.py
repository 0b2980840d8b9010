"""What the state machine of the core draws from."""

from __future__ import annotations

from hypothesis import strategies as st

from scheduler.core.quota import Quota

QUOTAS = {"search": Quota(concurrency=3, per_second=4.0, burst=2), "chat": Quota(concurrency=2)}
KEYS = ["cpu", "gpu", "api:search", "api:chat"]
SIZES = st.sets(st.integers(1, 4), min_size=1, max_size=3).map(sorted)
SERVICES = ["judge", "teacher"]
POLICIES = {
    "cpu": st.sampled_from(["live", "live", "paper", "paper_wait", "min", "fixed:2", "utilisation", "wait_or_start"]),
    "gpu": st.sampled_from(["residency", "paper", "min"]),
    "api": st.sampled_from(["min", "paper", "fixed:2"]),
}
