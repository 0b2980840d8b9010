"""The demo: the main job on real input, once per action and once with static reservations, and the report."""

from __future__ import annotations
