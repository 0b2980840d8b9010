"""The simulator: drives the real scheduler core in virtual time, with workloads that follow measured ones."""

from __future__ import annotations
