"""Simulators of inference engines: small local HTTP servers that behave as vLLM's and SGLang's documentation says.

They compute nothing but word overlap. What they are for is their manners: what they read a parameter from, what makes
them die, and what they claim without doing it.
"""

from __future__ import annotations

from tests.support.engine_simulators.device import SimulatedDevice
from tests.support.engine_simulators.faults import Faults
from tests.support.engine_simulators.sglang import SglangSimulator
from tests.support.engine_simulators.vllm import VllmSimulator

__all__ = ["Faults", "SglangSimulator", "SimulatedDevice", "VllmSimulator"]
