"""Shows and writes what the demo found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from compose.demo.outcome import Outcome
from monitoring.picture import act_picture
from monitoring.report import BatchReport
from monitoring.tables import act_table, comparison_table, sizes_table


class Summary(BaseModel):
    """The demo's result.

    Args:
        machine: what it ran on.
        seed: of the workload.
        static: the batch with static reservations.
        tangram: the same batch, scheduled per action.
        outcomes: by run, what came out of each trajectory.
        problems: what was wrong; empty if all is well.
        notes: what a reader must know to judge the figures.
    """

    machine: dict[str, Any]
    seed: int
    static: BatchReport
    tangram: BatchReport
    outcomes: dict[str, list[Outcome]]
    problems: list[str]
    notes: list[str]

    def show(self, console: Console) -> None:
        """Print tables, notes and the verdict."""
        for table in (
            comparison_table(self.static, self.tangram),
            act_table(self.static),
            act_table(self.tangram),
            sizes_table(self.tangram),
        ):
            console.print(table)
            console.print()
        for note in self.notes:
            console.print(f"- {note}", highlight=False)
        for problem in self.problems:
            console.print(f"FAILED {problem}", style="red", markup=False, highlight=False)
        if not self.problems:
            checked = sum(map(len, self.outcomes.values()))
            console.print(f"All results of {checked} trajectories are right.", style="green")

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write the report and the picture into `folder`; return their paths."""
        report, picture = folder / "report.json", folder / "act.svg"
        report.write_text(self.model_dump_json(indent=2), encoding="utf-8")
        picture.write_text(act_picture(self.static, self.tangram), encoding="utf-8")
        return report, picture
