"""Ready-made API actions: HTTP calls that spend a provider's quota."""

from __future__ import annotations

from typing import Any

from tangram_tasks.context import ApiHandle, current_action
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.shared import shared_action


def current_api() -> ApiHandle:
    """Return the API that the running action was granted. Raises ConfigurationError outside of one."""
    api = current_action().api
    if api is None:
        raise ConfigurationError("this action asked for no API: declare it with api=PROVIDER")
    return api


@shared_action(timeout=60, duration=1.0, api="*", provider_argument="provider")
def http_get(provider: str, path: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """GET `path` of a provider within its quota. Returns status, and json or text.

    Args:
        provider: the provider's name; its address and key are known to the API workers only.
        path: below the provider's base address.
        params: query parameters.
    """
    return _answer(current_api().request("GET", path, params=params))


@shared_action(timeout=60, duration=1.0, api="*", provider_argument="provider")
def http_post(provider: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """POST a JSON body to `path` of a provider within its quota. Returns status, and json or text.

    Args:
        provider: the provider's name; its address and key are known to the API workers only.
        path: below the provider's base address.
        body: sent as JSON.
    """
    return _answer(current_api().request("POST", path, json=body))


def _answer(response: Any) -> dict[str, Any]:
    kind = response.headers.get("content-type", "")
    content = {"json": response.json()} if kind.startswith("application/json") else {"text": response.text}
    return {"status": response.status_code, **content}
