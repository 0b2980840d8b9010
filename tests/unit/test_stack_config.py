"""What a stack consists of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compose.embedded import node_options
from compose.stack_config import CpuNodeConfig, StackConfig, read_stack_config, validated
from tangram_tasks.errors import ConfigurationError

TOML = """
cpu_unit = 0.25

[[cpu]]
name = "cpu-1"
cores = 2

[[gpu]]
name = "gpu-1"
budget_mib = 300
services = ["minilm"]

[[api]]
name = "api-1"
[api.providers.search]
base_url = "http://127.0.0.1:9000"
concurrency = 4
per_second = 10
"""


def test_a_file_describes_every_kind_of_node(tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    file.write_text(TOML, encoding="utf-8")
    config = read_stack_config(file, {"cpu_unit": 1.0, "prefix": "p:"}, {"port": 7001})
    assert [(kind, node.name) for kind, node in config.nodes()] == [
        ("cpu", "cpu-1"),
        ("gpu", "gpu-1"),
        ("api", "api-1"),
    ]
    assert config.cpu_unit == 0.25
    assert config.prefix == "p:"
    assert config.port == 7001
    assert config.api[0].providers["search"].burst is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cpu": [{"name": "a"}, {"name": "a"}]}, "unique: a"),
        ({"cpu": [{"name": "a b"}]}, "cpu.0.name"),
        ({"cpu": [{"name": "a", "cores": 0}]}, "cpu.0.cores"),
        ({"cpu": [{"name": "a", "core": 1}]}, "cpu.0.core"),
        ({"api": [{"name": "a", "providers": {}}]}, "api.0.providers"),
        ({"port": 0}, "port"),
        ({"cpu_unit": 2}, "cpu_unit"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        validated(StackConfig, fields)


@pytest.mark.parametrize("content", [None, "cpu = [", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str | bytes | None) -> None:
    file = tmp_path / "stack.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=r"cannot read .*stack\.toml"):
        read_stack_config(file, {}, {})


def test_children_get_their_settings_as_environment() -> None:
    config = StackConfig(cpu_unit=0.5, imports=("a", "b.c"), settings={"heartbeat": "0.5"})
    environment = config.environment("redis://:x@h:1/0", Path("/state"))
    assert environment["TANGRAM_BROKER_URL"] == "redis://:x@h:1/0"
    assert environment["TANGRAM_STATE_DIR"] == "/state"
    assert environment["TANGRAM_CPU_UNIT"] == "0.5"
    assert environment["TANGRAM_IMPORTS"] == "a,b.c"
    assert environment["TANGRAM_HEARTBEAT"] == "0.5"
    assert environment["TANGRAM_UNSAFE_LOCAL"] == "false"


def test_a_node_learns_its_options_and_its_owner() -> None:
    options = json.loads(node_options(CpuNodeConfig(name="cpu-1", cores=2), "abc"))
    assert options == {
        "name": "cpu-1",
        "concurrency": None,
        "cores": 2.0,
        "memory_mib": None,
        "backend": "auto",
        "warm": {},
        "warm_memory_mib": 512,
        "mount_roots": [],
        "images": [],
        "pause_after": None,
        "owner": "abc",
    }
