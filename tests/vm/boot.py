"""Runs our writing of control groups on a real kernel with cgroup version 2, in an emulated machine.

For hosts that have version 1 only. Not part of the test suite: it needs qemu-system-x86_64 and a kernel file with
NVMe and cgroups built in, such as Debian's cloud kernel: `apt-get download` the package that linux-image-cloud-amd64
depends on, and `dpkg-deb -x PACKAGE folder`.

    python -m tests.vm.boot folder/boot/vmlinuz-*

Prints what the machine says; exits with 0 if every check passed. The root file system is made of this host's own
Python, see `compose.host_tree`. Takes about a minute.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import click

from compose.host_tree import host_tree, shared_libraries
from compose.image import write_tar

INSIDE = Path(__file__).with_name("inside.py")
SITE = "site"  # where our code and what it imports lie in the machine
TIME = 600  # s until the machine must be done
DISK = 64 << 20  # bytes, to be read into page cache
PASSED = "ALL CHECKS PASSED"


def main() -> int:
    """Boot the machine and tell how it went."""
    parser = argparse.ArgumentParser(description="run the control group checks in an emulated machine")
    parser.add_argument("kernel", type=Path)
    kernel = parser.parse_args().kernel
    with tempfile.TemporaryDirectory(prefix="tangram-vm-") as folder:
        image, disk = Path(folder) / "root.cpio.gz", Path(folder) / "disk"
        _build(image)
        disk.write_bytes(bytes(DISK))
        said = _boot(kernel, image, disk)
    return 0 if PASSED in said else 1


def _boot(kernel: Path, image: Path, disk: Path) -> str:
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"]
    command += ["-kernel", str(kernel), "-initrd", str(image), "-nographic", "-no-reboot", "-nic", "none"]
    command += ["-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all"]
    command += ["-drive", f"file={disk},if=none,id=disk,format=raw", "-device", "nvme,serial=1,drive=disk"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as vm:
        alarm = threading.Timer(TIME, vm.kill)
        alarm.daemon = True
        alarm.start()
        said = ""
        for line in vm.stdout or ():
            click.echo(line.rstrip())
            said += line
        alarm.cancel()
    return said


def _build(image: Path) -> None:
    """Write the root file system: this host's Python, our code and what it imports, and the checks as /init."""
    tree = host_tree(())
    for name in ("workers.own_cgroup", "workers.scope_leaf"):
        importlib.import_module(name)
    roots = sorted({Path(root).resolve() for root in sys.path if root}, key=lambda root: -len(root.parts))
    for module in list(sys.modules.values()):
        source = getattr(module, "__file__", None)
        root = next((root for root in roots if source and Path(source).resolve().is_relative_to(root)), None)
        if source and root is not None and not str(root).startswith(sys.base_prefix + "/lib"):
            tree.files[f"{SITE}/{Path(source).resolve().relative_to(root)}"] = Path(source)
    for library in shared_libraries([source for source in tree.files.values() if source.suffix == ".so"]):
        tree.add(library)
    tree.texts["usr/bin/tangram-vm"] = INSIDE.read_text(encoding="utf-8")
    tree.links["init"] = "usr/bin/tangram-vm"
    with tempfile.TemporaryDirectory(prefix="tangram-vm-") as folder:
        archive = Path(folder) / "root.tar"
        write_tar(tree, archive)
        with tarfile.open(archive) as rows, gzip.open(image, "wb", compresslevel=1) as target:
            for piece in _cpio(rows):
                target.write(piece)


def _cpio(archive: tarfile.TarFile) -> Iterator[bytes]:
    """Yield the archive in the format that kernels unpack: initramfs buffer format, "newc"."""
    for number, entry in enumerate(archive, start=1):
        kind = 0o040000 if entry.isdir() else 0o120000 if entry.issym() else 0o100000
        file = archive.extractfile(entry) if entry.isfile() else None
        yield _row(number, entry.name, kind | entry.mode, file.read() if file else entry.linkname.encode())
    yield _row(0, "TRAILER!!!", 0, b"")


def _row(number: int, name: str, mode: int, data: bytes) -> bytes:
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name.encode()) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


if __name__ == "__main__":
    sys.exit(main())
