"""Providers as operators declare them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose.providers_file import read_providers
from tangram_tasks.errors import ConfigurationError
from tangram_tasks.provider import Limits, Provider

BASE = "http://127.0.0.1:9"


def windows(limits: Limits) -> set[tuple[int, float, str]]:
    return {(row.limit, row.seconds, row.counts) for row in limits.quota().windows}


def test_limits_become_windows() -> None:
    limits = Limits(concurrency=3, per_second=20, per_minute=300, per_day=9000, tokens_per_minute=5000)
    assert windows(limits) == {
        (20, 1.0, "calls"),
        (300, 60.0, "calls"),
        (9000, 86_400.0, "calls"),
        (5000, 60.0, "tokens"),
    }
    assert limits.quota().per_second is None, "a rate is spread only if a burst says how"
    assert windows(Limits(per_second=0.5)) == {(1, 2.0, "calls")}


def test_without_a_concurrency_it_is_learned() -> None:
    assert Limits().quota().adaptive
    assert not Limits(concurrency=4).quota().adaptive


def test_changes_replace_their_own_kind_only() -> None:
    before = Limits(concurrency=3, per_second=0.5, per_minute=300).quota()
    after = Limits(per_second=8).on_top_of(before)
    assert {(row.limit, row.seconds) for row in after.windows} == {(300, 60.0), (8, 1.0)}
    assert (after.concurrency, after.adaptive) == (3, False)
    assert Limits(concurrency=7).on_top_of(Limits().quota()).adaptive is False


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    yaml, toml = tmp_path / "providers.yaml", tmp_path / "providers.toml"
    yaml.write_text(f"search:\n  base_url: {BASE}\n  per_minute: 300\n  key_env: [A, B]\n")
    toml.write_text(f'[search]\nbase_url = "{BASE}"\nper_minute = 300\nkey_env = ["A", "B"]\n')
    assert read_providers(yaml) == read_providers(toml)
    assert read_providers(yaml)["search"].key_env == ("A", "B")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("search:\n  base_url: ftp://x\n", r"search\.base_url"),
        (f"search:\n  base_url: {BASE}\n  per_minut: 3\n", r"search\.per_minut"),
        (f"search:\n  base_url: {BASE}\n  burst: 3\n", "per_second"),
        ("- search\n", "one table per provider"),
        ("", "declares no provider"),
        ("a: [", "cannot read"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=named):
        read_providers(file)


def test_keys_come_from_environment_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("two\n\nthree\n")
    monkeypatch.setenv("TEST_KEY", "one")
    provider = Provider(base_url=BASE, key_env=("TEST_KEY",), key_file=file, key_header="x-api-key")
    assert provider.keys() == ("one", "two", "three")
    assert provider.credentials("one") == {"x-api-key": "one"}
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(ConfigurationError, match="TEST_KEY"):
        provider.keys()
    with pytest.raises(ConfigurationError, match="nowhere"):
        Provider(base_url=BASE, key_file=tmp_path / "nowhere").keys()
