"""The app that `celery -A monitoring.flower_app flower` shows: the deployment that TANGRAM_* names."""

from __future__ import annotations

from tangram_tasks.app import TangramApp

app = TangramApp("tangram")
