"""Finding packaged weights, and the cache of converted ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tangram_tasks.errors import ConfigurationError
from workers.model_files import cached_folder, package_folder


def _build(folder: Path) -> None:
    (folder / "weights").write_text("w")


def test_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "unimportable_model"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    assert package_folder("unimportable_model", "unimportable-model") == folder


def test_a_missing_model_package_names_the_extra() -> None:
    with pytest.raises(ConfigurationError, match=r"package no-such-model is not installed: .*tangram-rl\[rewards\]"):
        package_folder("no_such_model", "no-such-model")


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        _build(folder)

    first = cached_folder(tmp_path / "state", "model-1", build)
    second = cached_folder(tmp_path / "state", "model-1", build)

    assert first == second == tmp_path / "state" / "models" / "model-1"
    assert (first / "weights").read_text() == "w"
    assert len(built) == 1


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        _build(folder)
        raise RuntimeError("out of disk")

    with pytest.raises(RuntimeError, match="out of disk"):
        cached_folder(tmp_path, "model-1", build)
    assert list((tmp_path / "models").iterdir()) == []


def test_the_loser_of_a_race_takes_the_winners_folder(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        _build(folder)
        winner = tmp_path / "models" / "model-1"
        winner.mkdir()
        (winner / "weights").write_text("winner's")

    folder = cached_folder(tmp_path, "model-1", build)

    assert (folder / "weights").read_text() == "winner's"
    assert list((tmp_path / "models").iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file, not a folder")

    with pytest.raises(ConfigurationError, match="cannot be kept in"):
        cached_folder(tmp_path, "model-1", _build)
