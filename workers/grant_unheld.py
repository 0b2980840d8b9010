"""How a node says that it cannot keep what was granted."""

from __future__ import annotations

from tangram_tasks.errors import SandboxError


class GrantUnheld(SandboxError):
    """The node does not have what was granted, or not any more: the scheduler must choose again."""
