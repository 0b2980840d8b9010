"""How Celery is set up: JSON only, late acknowledgement, a broker that may go away for a while."""

from __future__ import annotations

from typing import Any

from tangram_tasks.settings import Settings


def celery_settings(config: Settings) -> dict[str, Any]:
    """Return Celery's configuration for rollout code and workers alike."""
    return {
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": "tangram.plain",
        "task_create_missing_queues": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_track_started": False,
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_soft_shutdown_timeout": 10.0,
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            # kombu keeps no copies of messages on their way: the ledger does, and decides who runs what.
            "ack_emulation": False,
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
        "result_expires": config.result_expires,
        "worker_hijack_root_logger": False,
        "broker_connection_timeout": 4.0,
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0.2},
    }
