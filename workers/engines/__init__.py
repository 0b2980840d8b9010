"""Services that compute in an engine's own server, driven over HTTP."""

from __future__ import annotations
