"""PID 1 of every sandbox: runs commands for the worker, and outlives whatever they do.

Standard library only, Python 3.8 or newer, no imports from outside this package: it is packed into one file
(`workers.agent_archive`) and mounted read-only into images that are not ours.
"""

from __future__ import annotations
