"""What a trajectory may ask of its sandbox's walls, and what it never gets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from tangram_tasks.errors import InvalidAction

DEFAULT_IMAGE = "tangram-base:latest"
STATELESS_MEMORY = "512MiB"

#: Options of container engines that would open a sandbox to its host.
_NEVER = frozenset(
    {"privileged", "cap_add", "devices", "device_requests", "pid_mode", "ipc_mode", "uts_mode", "userns_mode"}
    | {"cgroupns", "cgroup_parent", "security_opt", "volumes", "volumes_from", "network_mode", "sysctls", "runtime"}
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def refuse_options(names: Iterable[str]) -> None:
    """Refuse options that no trajectory has. Raises InvalidAction naming them, and what there is instead."""
    for name in sorted(names):
        if name in _NEVER:
            raise InvalidAction(
                f"{name} would open the sandbox to its host: no trajectory gets it. For data use mounts={{...}} below"
                " the node's mount_roots, for a network network='bridge' or the name of one"
            )
        raise InvalidAction(f"a trajectory has no option {name!r}")


def _network(name: str) -> str:
    if name == "host":
        raise ValueError("no sandbox gets the host's network: use none, bridge or the name of a network")
    if not _NETWORK.fullmatch(name):
        raise ValueError(f"{name!r} is no network: use none, bridge or the name of a network")
    return name


def _mount_path(path: str) -> str:
    if not posixpath.isabs(path) or posixpath.normpath(path) != path or path == "/" or "\0" in path or ":" in path:
        raise ValueError(f"{path!r} cannot be mounted: write an absolute path without '..', ':' or a trailing slash")
    return path


Network = Annotated[str, AfterValidator(_network)]
MountPath = Annotated[str, AfterValidator(_mount_path)]
