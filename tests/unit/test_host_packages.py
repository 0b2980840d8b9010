"""Packages and programs of this host that go into sandboxes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from compose.host_tree import HostTree
from compose.image import build_base_image, write_tar
from tangram_tasks.errors import ConfigurationError
from workers.host_packages import TEST_PACKAGES, closure, install_packages, package_files, scripts


def test_closure_follows_requirements_but_not_extras() -> None:
    names = {dist.metadata["Name"].lower() for dist in closure(["pytest-xdist"])}
    assert {"pytest-xdist", "execnet", "pytest", "pluggy", "iniconfig", "packaging"} <= names
    assert "psutil" not in names


def test_what_cannot_be_copied_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="package nope-nope is not installed here: `pip install nope-nope`"):
        closure(["nope-nope"])
    with pytest.raises(ConfigurationError, match="hiredis is not pure Python"):
        package_files(closure(["hiredis"]))


def test_installed_packages_work_alone(tmp_path: Path) -> None:
    folder = install_packages(TEST_PACKAGES, tmp_path, sys.executable)
    assert install_packages(TEST_PACKAGES, tmp_path, sys.executable) == folder
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    python = os.path.realpath(sys.executable)
    code = "import xdist, pytest; print(pytest.__file__)"
    seen = subprocess.run(
        [python, "-sS", "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    assert seen.stdout.startswith(str(folder))
    assert (folder / "bin/pytest").stat().st_mode & 0o111


def test_scripts_start_the_entry_point() -> None:
    text = scripts(closure(["pytest"]), "/usr/bin/python3")["pytest"]
    assert text.startswith("#!/usr/bin/python3\n")
    compile(text, "pytest", "exec")


def test_a_tree_is_packed_without_owners_and_changes_its_fingerprint_with_content(tmp_path: Path) -> None:
    program = tmp_path / "real"
    program.write_text("first")
    program.chmod(0o700)
    (tmp_path / "alias").symlink_to(program)
    tree = HostTree()
    tree.add(tmp_path / "alias")
    tree.links["bin"] = "usr/bin"
    before = tree.fingerprint()
    write_tar(tree, tmp_path / "root.tar")
    with tarfile.open(tmp_path / "root.tar") as packed:
        members = {member.name: member for member in packed}
        place = str(tmp_path / "alias").lstrip("/")
        assert members[place].isreg()
        assert (members[place].uid, members[place].mode) == (0, 0o755)
        assert members["bin"].linkname == "usr/bin"
        assert members["tmp"].mode == 0o1777
        assert all(member.mode & 0o5 == 0o5 for member in members.values() if member.isdir())
    program.write_text("longer than before")
    assert tree.fingerprint() != before


@pytest.mark.parametrize("tag", ["tangram-base", "host:5000/base"])
def test_an_image_without_a_tag_is_refused(tag: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a tag"):
        build_base_image(tag)
