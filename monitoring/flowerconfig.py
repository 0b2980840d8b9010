"""Flower's configuration file; Flower executes it at its start."""

from __future__ import annotations

from monitoring.flower_plugin import COLUMNS, install

install()
tasks_columns = ",".join(("name", "uuid", "state", *COLUMNS, "worker", "received", "runtime"))
