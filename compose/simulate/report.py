"""Everything that came out of one `tangram simulate`, for programs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from compose.simulate.results import Row, Run


class SimulationReport(BaseModel):
    """A comparison.

    Args:
        workload: its name.
        about: where its parameters come from.
        cluster: the machines, by number of trajectories.
        costs_ms: what the machinery adds.
        malleable: share of the elastic actions that may be resized while they run.
        runs: every run.
        summary: one row per batch and policy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str
    about: str
    cluster: dict[int, dict[str, object]]
    costs_ms: dict[str, int]
    malleable: float
    runs: list[Run]
    summary: list[Row]
