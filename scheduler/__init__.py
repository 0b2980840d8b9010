"""Decides when an action starts, where, and with how many units."""

from __future__ import annotations
