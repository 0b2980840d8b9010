"""Shows where actions' time went."""

from __future__ import annotations
