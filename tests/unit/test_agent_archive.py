"""The agent as one file: old Pythons can read it, and it needs nothing but their standard library."""

from __future__ import annotations

import ast
import sys
import zipfile
from pathlib import Path

from workers.agent_archive import write_agent

OLDEST = (3, 8)


def test_the_archive_stands_alone(tmp_path: Path) -> None:
    archive = write_agent(tmp_path)
    assert archive.stat().st_mode & 0o777 == 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["agent.pyz"]
    with zipfile.ZipFile(archive) as packed:
        names = set(packed.namelist())
        trees = [ast.parse(packed.read(name), name, feature_version=OLDEST) for name in names if name.endswith(".py")]
    assert {"__main__.py", "workers/__init__.py", "workers/agent/loop.py"} <= names
    imported = {module for tree in trees for module in _imports(tree)}
    own = {module for module in imported if module.startswith("workers.agent")}
    assert imported - own <= set(sys.stdlib_module_names)
    assert {module.replace(".", "/") + ".py" for module in own - {"workers.agent"}} <= names


def test_writing_again_replaces_it(tmp_path: Path) -> None:
    assert write_agent(tmp_path) == write_agent(tmp_path)


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found
