"""Model folders that are not whole, or not safe. Files are written by hand: no torch."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tangram_tasks.errors import ConfigurationError
from workers.safetensors_files import check_whole, weights_in


def _tensors(file: Path, nbytes: int = 8) -> Path:
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "w": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}}
    ).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(nbytes))
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_a_whole_folder_is_fine(folder: Path) -> None:
    file = _tensors(folder / "model.safetensors")
    assert weights_in(folder) == [file]


@pytest.mark.parametrize("kept", [0, 4, 8, 20, -1])
def test_a_file_that_is_cut_off_is_named(folder: Path, kept: int) -> None:
    file = _tensors(folder / "model.safetensors", 1000)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ConfigurationError, match=r"model\.safetensors (is no safetensors|has \d+ bytes, and should)"):
        weights_in(folder)


def test_a_file_of_something_else_is_named(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(b"\xff" * 100)
    with pytest.raises(ConfigurationError, match="is no safetensors file: its header would have"):
        weights_in(folder)
    file.write_bytes(struct.pack("<Q", 2) + b"[]")
    with pytest.raises(ConfigurationError, match="is no safetensors file"):
        check_whole(file)


def test_a_missing_shard_is_named(folder: Path) -> None:
    _tensors(folder / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigurationError, match=r"model-2\.safetensors is missing"):
        weights_in(folder)
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"index\.json cannot be read"):
        weights_in(folder)


def test_pickles_are_refused(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ConfigurationError, match=r"weights in pytorch_model\.bin: pickles can run code"):
        weights_in(folder)


def test_a_folder_without_weights_or_config_is_named(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"has no \*\.safetensors file"):
        weights_in(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ConfigurationError, match=r"no Hugging Face model folder: it has no config\.json"):
        weights_in(folder)
    with pytest.raises(ConfigurationError, match="no Hugging Face model folder"):
        weights_in(folder / "nowhere")
