"""Sandboxes without a container engine: bubblewrap's namespaces, our own control groups, the same agent.

The host's /usr is visible read-only and is the image; an order's image name is ignored. pytest and its kin are put
on PYTHONPATH. Weaker than Docker in one thing: there is no system call filter. Dies with the worker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tangram_tasks.control_messages import OpenTrajectory
from tangram_tasks.errors import ConfigurationError, SandboxError
from tangram_tasks.resources import MIB
from workers import isolation
from workers.agent.privileges import NO_USER
from workers.agent_archive import write_agent
from workers.cgroups import Cgroup
from workers.host_packages import TEST_PACKAGES, install_packages
from workers.live_sandbox import LiveSandbox
from workers.own_cgroup import create_group, group_named, join_files, remove_group
from workers.sandbox_folder import SOCKET, SandboxFolder, SandboxRecord, sandbox_name

PACKAGES = "/opt/tangram"
_PROBE_TIME = 20.0
_END_TIME = 10.0
_LOG = "bwrap.log"
#: Join control groups, then become the program: `sh -c JOIN join GROUP_FILE... -- PROGRAM...`
_JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'


class BubblewrapBackend:
    """Makes sandboxes with bwrap. See `workers.sandbox_backend.SandboxBackend`.

    Args:
        node: the node.
        state_dir: for the agent's file and the packages.

    Raises:
        ConfigurationError: bwrap is missing or not allowed, or control groups cannot be made.
    """

    name = "bubblewrap"

    def __init__(self, *, node: str, state_dir: Path) -> None:
        self._node = node
        self._python = os.path.realpath(sys.executable)
        self._agent = write_agent(state_dir)
        self._packages = install_packages(TEST_PACKAGES, state_dir, self._python)
        self._probe()

    def create(self, order: OpenTrajectory, folder: Path) -> LiveSandbox:
        """See SandboxBackend."""
        where = SandboxFolder(folder)
        name = sandbox_name(order.trajectory, self._node)
        connect(name, order.network)
        with contextlib.ExitStack() as undo:
            where.create()
            undo.callback(where.remove)
            group = create_group(_group_name(folder.name), memory=order.memory, pids=isolation.PIDS)
            undo.callback(remove_group, group)
            process = self._start(order, where, group)
            undo.callback(process.wait, _END_TIME)
            undo.callback(remove_group, group)
            client = where.admit(name, lambda: _why_dead(process, folder))
            undo.callback(client.close)
            group.idle()
            undo.pop_all()

        def dispose() -> None:
            remove_group(group)
            process.wait(_END_TIME)
            where.remove()

        return LiveSandbox(
            trajectory=order.trajectory,
            lease=folder.name,
            env={"PYTHONPATH": PACKAGES, **order.env},
            client=client,
            control=group,
            connect=partial(connect, name),
            dispose=dispose,
        )

    def adopt(self, record: SandboxRecord, folder: Path) -> LiveSandbox | None:
        """See SandboxBackend. It died with its worker."""
        return None

    def sweep(self, folders: list[Path], live: set[str]) -> list[str]:
        """See SandboxBackend."""
        left = [folder for folder in folders if folder.name not in live]
        for folder in left:
            remove_group(group_named(_group_name(folder.name)))
            SandboxFolder(folder).remove()
        return sorted(folder.name for folder in left)

    def prefetch(self, images: Sequence[str]) -> list[str]:
        """See SandboxBackend. The host is the image."""
        return []

    def close(self) -> None:
        """See SandboxBackend."""

    def _start(self, order: OpenTrajectory, where: SandboxFolder, group: Cgroup) -> subprocess.Popen[bytes]:
        uid = NO_USER if _uid() == NO_USER else order.user or isolation.SANDBOX_UID
        program = [
            *self._namespaces(),
            *self._file_system(order.memory),
            *(word for source, target in order.mounts.items() for word in ("--ro-bind", source, target)),
            *("--ro-bind", str(self._agent), isolation.AGENT),
            *("--bind", str(where.doorway), isolation.DOORWAY),
            *("--remount-ro", "/", "--"),
            *isolation.agent_command(self._python, f"{isolation.DOORWAY}/{SOCKET}", isolation.WORK, uid),
        ]
        with (where.path / _LOG).open("wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", _JOIN, "join", *join_files(group), "--", *program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},
                start_new_session=True,
            )

    def _namespaces(self) -> list[str]:
        arguments = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        arguments += ["--unshare-cgroup-try", "--hostname", "sandbox", "--as-pid-1", "--die-with-parent"]
        arguments += ["--new-session", "--cap-drop", "ALL", "--clearenv"]
        if _uid() == NO_USER:
            arguments += ["--unshare-user"]
        else:  # CHOWN only for the work folder, which bwrap cannot make for another user
            for capability in (*isolation.AGENT_CAPABILITIES, "CHOWN"):
                arguments += ["--cap-add", f"CAP_{capability}"]
        paths = f"{PACKAGES}/bin:{Path(self._python).parent}:/usr/local/bin:/usr/bin:/bin"
        for name, value in (("PATH", paths), ("HOME", isolation.WORK), ("USER", "sandbox"), ("LANG", "C.UTF-8")):
            arguments += ["--setenv", name, value]
        return arguments

    def _file_system(self, memory: int) -> list[str]:
        arguments = ["--ro-bind", "/usr", "/usr"]
        for link in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
            if Path(link).is_symlink():
                arguments += ["--symlink", str(Path(link).readlink()), link]
            elif Path(link).exists():
                arguments += ["--ro-bind", link, link]
        for file in ("ld.so.cache", "alternatives", "passwd", "group", "localtime"):
            arguments += ["--ro-bind-try", f"/etc/{file}", f"/etc/{file}"]
        shown = [(str(self._packages), PACKAGES)]
        if not sys.base_prefix.startswith("/usr"):
            shown.append((sys.base_prefix, sys.base_prefix))
        for source, target in shown:
            for parent in reversed(Path(target).parents):  # bwrap would close those it makes to other users
                arguments += ["--perms", "0755", "--dir", str(parent)]
            arguments += ["--ro-bind", source, target]
        arguments += ["--proc", "/proc", "--dev", "/dev"]
        for mode, size, path in (
            ("1777", isolation.tmp_mib(memory), "/tmp"),
            ("0755", isolation.work_mib(memory), isolation.WORK),
        ):
            arguments += ["--perms", mode, "--size", str(size * MIB), "--tmpfs", path]
        return arguments

    def _probe(self) -> None:
        if shutil.which("bwrap") is None:
            raise ConfigurationError("bwrap is not installed: install the package bubblewrap")
        group = None
        try:
            group = create_group(_group_name(f"probe-{os.getpid()}"), memory=64, pids=32)
            command = [*self._namespaces(), *self._file_system(64), "--", "/bin/sh", "-c", "true"]
            done = subprocess.run(command, capture_output=True, timeout=_PROBE_TIME, check=False)
            if done.returncode:
                raise ConfigurationError(f"bwrap is not allowed to work here: {done.stderr.decode().strip()}")
        except (SandboxError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(f"bubblewrap cannot be used: {error}") from None
        finally:
            if group is not None:
                remove_group(group)


def connect(name: str, network: str) -> None:
    """Refuse what bubblewrap cannot do. Raises SandboxError naming the sandbox."""
    if network != "none":
        raise SandboxError(f"{name}: bubblewrap has no network {network!r}; use Docker, or network none")


def _uid() -> int:
    """Whom commands run as: without being root, bwrap can only map the worker's own user."""
    return isolation.SANDBOX_UID if os.geteuid() == 0 else NO_USER


def _group_name(lease: str) -> str:
    return f"tangram-{lease}"


def _why_dead(process: subprocess.Popen[bytes], folder: Path) -> str:
    if process.poll() is None:
        return ""
    return f"bwrap ended with {process.returncode}: {(folder / _LOG).read_text(errors='replace')[-500:].strip()}"
