"""The packaged workloads, each drawn from the parameters in the JSON file of its name."""

from __future__ import annotations
