"""Measured claims: `python -m benchmarks NAME --json`."""

from __future__ import annotations
