"""Imported first by test modules that need torch: without it they are skipped, or fail with CI=true."""

from __future__ import annotations

import importlib.util
import os

import pytest

if importlib.util.find_spec("torch") is None and os.environ.get("CI") != "true":
    pytest.skip("torch is not installed", allow_module_level=True)

#: The mark of tests that need torch, and maybe the reward models.
NEEDS_TORCH = pytest.mark.torch
