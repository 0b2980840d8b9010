"""Runs granted actions: CPU sandboxes, paged reward models, API calls."""

from __future__ import annotations
