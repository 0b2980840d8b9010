"""The state folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compose.state_dir import StateDir
from tangram_tasks.errors import ConfigurationError


def test_a_second_holder_learns_who_holds_it(tmp_path: Path) -> None:
    first, second = StateDir(tmp_path), StateDir(tmp_path)
    first.lock()
    with pytest.raises(ConfigurationError, match=f"process {os.getpid()} runs tangram in {tmp_path}"):
        second.lock()
    assert second.holder() == os.getpid()


def test_an_unlocked_folder_can_be_taken_again(tmp_path: Path) -> None:
    first, second = StateDir(tmp_path), StateDir(tmp_path)
    first.lock()
    first.unlock()
    first.unlock()
    assert second.holder() is None
    second.lock()
    second.unlock()


def test_nobody_holds_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert StateDir(tmp_path / "absent").holder() is None
    assert not (tmp_path / "absent").exists()


def test_the_folder_is_private_and_the_owner_id_stays(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    owner = state.owner()
    assert len(owner) == 12
    assert StateDir(tmp_path / "state").owner() == owner
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_an_early_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=r"is not writable.*TANGRAM_STATE_DIR"):
        StateDir(file / "state").lock()
