"""The files of this host that make a small root file system: Python, bash, the usual commands, their libraries.

Only what is listed here gets in: programs by name, the libraries the loader names for them, Python's standard
library, and pure Python packages. No configuration, no home folder, nothing from /etc.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tangram_tasks.errors import ConfigurationError
from workers.host_packages import closure, package_files, scripts

NEEDED = ("bash", "sh", "ls", "cat", "env")
COMMANDS = """
    awk base64 basename bash cat chmod cksum cmp comm cp cut date dd df diff dirname du echo egrep env expand expr false
    fgrep find fold git grep gunzip gzip head hostname id install join kill ln ls md5sum mkdir mkfifo mktemp mv nice nl
    nohup nproc numfmt od paste patch pgrep pkill printenv printf ps pwd readlink realpath rev rm rmdir sed seq setsid
    sh sha1sum sha256sum shuf sleep sort split stat stdbuf sync tac tail tar tee test time timeout touch tr true
    truncate tsort tty uname unexpand uniq wc which whoami xargs yes
""".split()  # noqa: SIM905  # as a list it would be a hundred lines
_LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "site-packages", "dist-packages")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/work:/bin/bash\n",
    "etc/group": "root:x:0:\nsandbox:x:1000:\n",
}
_LDD = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(", re.MULTILINE)


@dataclass
class HostTree:
    """A root file system in the making. Paths inside have no leading slash.

    Args:
        files: path inside -> file of this host.
        texts: path inside -> content; executable below a `bin` folder.
        links: path inside -> where the symbolic link points.
    """

    files: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=lambda: dict(_TEXTS))
    links: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Put a file at its own place; a symbolic link becomes what it points to."""
        place = path.parent.resolve() / path.name
        self.files[str(place).lstrip("/")] = path.resolve()

    def fingerprint(self) -> str:
        """Return a hash that changes with any of it. Byte code is left out: it comes and goes by itself."""
        rows = [repr((sorted(self.texts.items()), sorted(self.links.items())))]
        for place, source in sorted(self.files.items()):
            if not place.endswith(".pyc"):
                info = source.stat()
                rows.append(f"{place} {info.st_size} {info.st_mtime_ns}")
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def host_tree(packages: Iterable[str]) -> HostTree:
    """Collect the tree.

    Args:
        packages: distributions of this environment to install, with what they require.

    Raises:
        ConfigurationError: a needed command is missing, or a package cannot be copied.
    """
    tree = HostTree()
    programs = [Path(found) for name in COMMANDS if (found := shutil.which(name, path="/usr/local/bin:/usr/bin:/bin"))]
    missing = set(NEEDED) - {program.name for program in programs}
    if missing:
        raise ConfigurationError(f"this host has no {', '.join(sorted(missing))}: install coreutils and bash")
    python = Path(os.path.realpath(sys.executable))
    library = Path(os.__file__).parent
    modules = list(_library_files(library))
    for path in [*programs, python, *modules]:
        tree.add(path)
    for path in shared_libraries([*programs, python, *(m for m in modules if m.suffix == ".so")]):
        tree.add(path)
    tree.links.update({name: os.readlink(f"/{name}") for name in _MERGED if Path(f"/{name}").is_symlink()})  # noqa: PTH115  # as written
    for alias in ("usr/local/bin/python3", "usr/local/bin/python"):
        tree.links[alias] = str(python)
    _add_packages(tree, packages, python)
    return tree


def _library_files(library: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")]
        yield from (Path(folder) / name for name in names)


def shared_libraries(programs: Sequence[Path]) -> list[Path]:
    """Return the libraries that the loader names for these programs and modules."""
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    return [Path(path) for path in sorted(set(_LDD.findall(listed.stdout)))]


def _add_packages(tree: HostTree, packages: Iterable[str], python: Path) -> None:
    asked = subprocess.run(
        [python, "-I", "-c", "import site; print(site.getsitepackages()[0])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    target = asked.stdout.strip().lstrip("/")
    distributions = closure(packages)
    for relative, source in package_files(distributions).items():
        tree.files[f"{target}/{relative}"] = source
    for name, text in scripts(distributions, "/usr/local/bin/python3").items():
        tree.texts[f"usr/local/bin/{name}"] = text
