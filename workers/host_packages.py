"""Pure Python packages of this environment, to be put into sandboxes that cannot install any."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tangram_tasks.errors import ConfigurationError

#: What a sandbox needs to run test suites.
TEST_PACKAGES = ("pytest", "pytest-xdist")


def closure(names: Iterable[str]) -> list[Distribution]:
    """Return these distributions and what they require, sorted by name.

    Raises:
        ConfigurationError: one of them is not installed here.
    """
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            raise ConfigurationError(f"package {name} is not installed here: `pip install {name}` first") from None
        key = dist.metadata["Name"].lower()
        if key not in found:
            found[key] = dist
            requirements = [Requirement(text) for text in dist.requires or ()]
            waiting += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return [found[key] for key in sorted(found)]


def package_files(distributions: Sequence[Distribution]) -> dict[str, Path]:
    """Return path below site-packages -> file, without byte code and without scripts.

    Raises:
        ConfigurationError: one of them holds compiled code, or was installed in a way that lists no files.
    """
    files: dict[str, Path] = {}
    for dist in distributions:
        name = dist.metadata["Name"]
        if dist.files is None:
            raise ConfigurationError(f"package {name} does not list its files: reinstall it with pip")
        for entry in dist.files:
            if entry.suffix == ".so":
                raise ConfigurationError(f"package {name} is not pure Python ({entry}): leave it out")
            if ".." not in entry.parts and entry.suffix != ".pyc":
                files[str(entry)] = Path(str(entry.locate()))
    return files


def scripts(distributions: Sequence[Distribution], python: str) -> dict[str, str]:
    """Return command name -> text of a script that starts it.

    Args:
        distributions: whose console scripts.
        python: path of the interpreter inside.
    """
    return {
        entry.name: f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\n\nsys.exit({entry.attr}())\n"
        for dist in distributions
        for entry in dist.entry_points.select(group="console_scripts")
    }


def install_packages(names: Iterable[str], folder: Path, python: str) -> Path:
    """Copy packages into a folder below `folder` named after their versions, once; `bin` holds their scripts.

    Raises:
        ConfigurationError: see `closure` and `package_files`.
        OSError: the folder cannot be written.
    """
    distributions = closure(names)
    versions = [f"{dist.metadata['Name']}=={dist.version}" for dist in distributions]
    target = folder / f"packages-{hashlib.sha256(repr([python, *versions]).encode()).hexdigest()[:16]}"
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix=".packages.") as scratch:
        made = Path(scratch) / "made"
        for relative, source in package_files(distributions).items():
            (made / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, made / relative)
        (made / "bin").mkdir(exist_ok=True)
        for name, text in scripts(distributions, python).items():
            (made / "bin" / name).write_text(text)
            (made / "bin" / name).chmod(0o755)
        made.rename(target)
    return target
