"""Ready-made CPU actions: what an agent does in its sandbox.

They belong to whichever TangramApp is current, so rollout code needs no task of its own. Paths are below the work
folder unless absolute. A wrong argument (no such text, a pattern that does not compile, a patch that does not fit)
raises ValueError, and a file that is not there FileNotFoundError: those are the agent's own mistakes.
"""

from __future__ import annotations

from tangram_tasks.tools.editing import apply_patch, edit_file, read_file, write_file
from tangram_tasks.tools.searching import grep, list_files
from tangram_tasks.tools.shell import bash, python
from tangram_tasks.tools.testing import run_tests

__all__ = [
    "apply_patch",
    "bash",
    "edit_file",
    "grep",
    "list_files",
    "python",
    "read_file",
    "run_tests",
    "write_file",
]
