"""The pure scheduler core: events in, decisions out; no I/O and no clock."""

from __future__ import annotations
