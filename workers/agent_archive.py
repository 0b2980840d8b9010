"""The agent as one file, so that it can be mounted into any sandbox."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import workers
import workers.agent

_MAIN = "from workers.agent.__main__ import main\n\nmain()\n"


def write_agent(folder: Path) -> Path:
    """Write the agent's package as a Python zip application into `folder`, and return its path.

    Raises:
        OSError: the folder cannot be written.
    """
    target = folder / "agent.pyz"
    package = Path(next(iter(workers.agent.__path__)))
    root = Path(next(iter(workers.__path__)))
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".agent.", delete=False) as file:
        with zipfile.ZipFile(file, "w") as archive:  # stored: an image's Python may lack zlib
            archive.writestr("__main__.py", _MAIN)
            for source in [root / "__init__.py", *sorted(package.glob("*.py"))]:
                archive.write(source, Path("workers") / source.relative_to(root))
        Path(file.name).chmod(0o444)
    return Path(file.name).replace(target)
