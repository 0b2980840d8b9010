"""What a node's operator says of its sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tangram_tasks.errors import ConfigurationError, SandboxError
from workers import isolation

#: What a mount must not touch: what makes a sandbox one, and what is copied and cleaned as its own.
_OURS = ("/proc", "/sys", "/dev", "/tmp", isolation.WORK, isolation.DOORWAY, isolation.AGENT)


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Read once, at the node's start.

    Args:
        warm: image to how many sandboxes of it are kept ready, or to that by memory in MiB. A trajectory that asks
            for just as much memory may get one.
        warm_memory_mib: memory where `warm` says none.
        mount_roots: trajectories may mount what is below these folders, read-only.
        images: pulled at the start, if they are missing.
        pause_after: s without an action after which a sandbox gives its page cache back; None: never.

    Raises:
        ConfigurationError: a number is negative or too small, or a root is no folder.
    """

    warm: Mapping[str, int | Mapping[int, int]] = field(default_factory=dict)
    warm_memory_mib: int = 512
    mount_roots: tuple[Path, ...] = ()
    images: tuple[str, ...] = ()
    pause_after: float | None = None

    def __post_init__(self) -> None:
        if self.warm_memory_mib < isolation.MIN_MEMORY_MIB:
            raise ConfigurationError(f"warm_memory_mib must be {isolation.MIN_MEMORY_MIB} or more")
        for (image, memory), count in self.targets.items():
            check_target(image, memory, count)
        for root in self.mount_roots:
            if not root.is_absolute() or not root.is_dir():
                raise ConfigurationError(f"mount_roots: {root} is no folder with an absolute path")

    @property
    def targets(self) -> dict[tuple[str, int], int]:
        """Image and MiB to how many sandboxes of the kind are kept ready."""
        return {
            (image, memory): count
            for image, asked in self.warm.items()
            for memory, count in ({self.warm_memory_mib: asked} if isinstance(asked, int) else asked).items()
        }

    @property
    def reserved_mib(self) -> int:
        """MiB that warm sandboxes hold, and that the node therefore does not offer."""
        return sum(memory * count for (_, memory), count in self.targets.items())

    def resolve(self, mounts: Mapping[str, str]) -> dict[str, str]:
        """Return the same mounts with their sources free of links.

        Raises:
            SandboxError: a source does not exist or is not below a root, or a target is the sandbox's own.
        """
        return {str(self._source(source)): _target(target) for source, target in mounts.items()}

    def _source(self, source: str) -> Path:
        allowed = ", ".join(map(str, self.mount_roots)) or "none are"
        try:
            path = Path(source).resolve(strict=True)
        except OSError:
            path = None
        if path is None or not any(path.is_relative_to(root.resolve()) for root in self.mount_roots):
            raise SandboxError(
                f"{source} cannot be mounted: it must exist on the node below one of its mount_roots ({allowed})"
            )
        return path


def check_target(image: str, memory: int, count: int) -> None:
    """Refuse what no warm pool can keep. Raises ConfigurationError."""
    if count < 0:
        raise ConfigurationError(f"warm: {count} sandboxes of {image} cannot be kept: say 0 or more")
    if memory < isolation.MIN_MEMORY_MIB:
        raise ConfigurationError(f"warm: a sandbox of {image} needs {isolation.MIN_MEMORY_MIB} MiB, not {memory}")


def _target(target: str) -> str:
    path = PurePosixPath(target)
    for ours in map(PurePosixPath, _OURS):
        if path.is_relative_to(ours) or ours.is_relative_to(path):
            raise SandboxError(f"nothing can be mounted on {target}: {ours} is the sandbox's own; choose another place")
    return target


DEFAULT_POLICY = SandboxPolicy()
