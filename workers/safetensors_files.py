"""Whether a model's weights are there, whole, and in the one format that cannot run code. Reads headers only."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tangram_tasks.errors import ConfigurationError

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_LENGTH = struct.Struct("<Q")
#: A longer header than this is none (the format's own limit), bytes.
_MAX_HEADER = 100_000_000


def weights_in(folder: Path) -> list[Path]:
    """Return a model folder's safetensors files, each looked at.

    Raises ConfigurationError naming the file that is missing, cut off, or a pickle.
    """
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{folder} is no Hugging Face model folder: it has no config.json")
    files = _shards(folder) or sorted(folder.glob("*.safetensors"))
    if not files:
        pickles = sorted(file.name for file in folder.iterdir() if file.suffix in _PICKLES)
        if pickles:
            raise ConfigurationError(
                f"{folder} has its weights in {', '.join(pickles)}: pickles can run code when they are read and are "
                "refused; save the model again with safe_serialization=True"
            )
        raise ConfigurationError(f"{folder} has no *.safetensors file")
    for file in files:
        check_whole(file)
    return files


def check_whole(file: Path) -> None:
    """Raise ConfigurationError if the file is no safetensors file, or not as long as its header says."""
    try:
        with file.open("rb") as stream:
            (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
            if length > _MAX_HEADER:
                raise ConfigurationError(f"{file} is no safetensors file: its header would have {length} bytes")
            header: dict[str, Any] = json.loads(stream.read(length))
        ends = [row["data_offsets"][1] for name, row in header.items() if name != "__metadata__"]
    except FileNotFoundError:
        raise ConfigurationError(f"{file} is missing") from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{file} is no safetensors file, or its header is cut off: {error}") from None
    whole = _LENGTH.size + length + max(ends, default=0)
    size = file.stat().st_size
    if size != whole:
        raise ConfigurationError(f"{file} has {size} bytes, and should have {whole}: copy or download it again")


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    try:
        names: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except FileNotFoundError:
        return []
    except (ValueError, LookupError) as error:
        raise ConfigurationError(f"{index} cannot be read: {error!r}") from None
    return [folder / name for name in sorted(set(names.values()))]
