"""Files and Python objects that declare services."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tangram_tasks.errors import ConfigurationError
from workers.fake_service import FakeService
from workers.service_catalogue import declared_services, load_service
from workers.service_declaration import FakeDeclaration, SglangDeclaration, TorchDeclaration, VllmDeclaration
from workers.services_file import read_services

GIB = 1 << 30
OWN = [FakeDeclaration(name="one"), FakeDeclaration(name="two")]
ALONE = FakeDeclaration(name="alone")
NOTHING = 7


def _file(folder: Path, text: str) -> Path:
    file = folder / "services.yaml"
    file.write_text(text)
    return file


def test_a_file_declares_services_of_all_kinds(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        """
services:
  - {name: minilm, kind: torch, source: minilm}
  - {name: own, kind: torch, source: "my.module:load"}
  - {name: judge, kind: torch, source: ./models/judge, task: sequence_classification, label: 1}
  - {name: head, kind: torch, source: head.safetensors, factory: "my.module:build"}
  - name: big
    kind: vllm
    servers: [{url: "http://h:1", devices: [0, 1]}, {url: "http://h:2", devices: [2, 3]}]
    memory: 16GiB
    residual: 1GiB
    key_file: secret
  - {name: teacher, kind: sglang, servers: [{url: "http://h:3"}], memory: 2GiB}
  - {name: fake, kind: fake, canary: {payload: {pairs: [[a, a]]}, expected: [1]}}
""",
    )
    minilm, own, judge, head, big, teacher, fake = read_services(file)
    assert isinstance(minilm, TorchDeclaration)
    assert minilm.source == "minilm"
    assert isinstance(own, TorchDeclaration)
    assert own.source == "my.module:load"
    assert isinstance(judge, TorchDeclaration)
    assert judge.source == str(tmp_path / "models" / "judge")
    assert isinstance(head, TorchDeclaration)
    assert head.source == str(tmp_path / "head.safetensors")
    assert isinstance(big, VllmDeclaration)
    assert (big.memory, big.residual, big.key_file) == (16 * GIB, GIB, tmp_path / "secret")
    assert isinstance(teacher, SglangDeclaration)
    assert isinstance(fake, FakeDeclaration)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "services:\n  - name: a\n    kind: fake\n    memory: lots\n",
            r"services\.yaml:4: .*memory: cannot read the memory",
        ),
        ("services:\n  - name: a\n    kind: mystery\n", r"services\.yaml:2: .*'mystery' found using"),
        ("services:\n  - name: a\n", r"services\.yaml:2: .*kind"),
        ("services:\n  - {name: a b, kind: fake}\n", r":2: services\.0\.fake\.name: String should match"),
        ("services:\n  - name: a\n    kind: fake\n    devises: 1\n", r":4: .*devises: Extra inputs are not permitted"),
        ("services:\n  - {name: a, kind: fake}\n  - {name: a, kind: fake}\n", "two services are called a"),
        ("services: []\n", r":1: services: List should have at least 1 item"),
        ("", r"services\.yaml:1: file: "),
        ("services: [", r"services\.yaml is no YAML: .*line 1"),
        ("services: !!python/object/apply:os.system [true]\n", "is no plain YAML: could not determine a constructor"),
        ("services:\n  - {name: a, kind: vllm, servers: [{url: 'ftp://x'}], memory: 1GiB}\n", r"servers\.0\.url"),
        ("services:\n  - {name: a, kind: vllm, servers: [{url: 'http://u:p@x'}], memory: 1GiB}\n", r"servers\.0\.url"),
        (
            "services:\n  - {name: a, kind: vllm, servers: [{url: 'http://x'}, {url: 'http://y'}], memory: 1GiB}\n",
            "two servers of one service cannot share a device",
        ),
        ("services:\n  - {name: a, kind: torch, source: x.safetensors}\n", "needs a factory"),
        ("services:\n  - {name: a, kind: torch, source: 'm:f', label: 1}\n", "only a folder takes label"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_services(_file(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*nowhere\.yaml"):
        read_services(tmp_path / "nowhere.yaml")


def test_options_name_packages_functions_files_and_python_objects(tmp_path: Path) -> None:
    here = "tests.unit.test_declarations"
    file = _file(tmp_path, "services: [{name: filed, kind: fake}]")
    found = declared_services(["minilm", "mine=a.b:c", str(file), f"{here}:OWN", f"{here}:ALONE"])
    assert [one.name for one in found] == ["minilm", "mine", "filed", "one", "two", "alone"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["tests.unit.test_declarations:NOTHING"], "NOTHING holds no declarations"),
        (["tests.unit.test_declarations:ABSENT"], "cannot be imported"),
        (["tests.unit.test_declarations:OWN", "tests.unit.test_declarations:OWN"], "same name: one, two"),
        (["mine=nonsense"], "unknown service 'mine=nonsense'"),
    ],
)
def test_options_that_name_nothing_are_refused(options: list[str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        declared_services(options)


def test_a_fake_service_needs_neither_torch_nor_a_device(tmp_path: Path) -> None:
    service = load_service(FakeDeclaration(name="fake", memory=GIB), tmp_path, None)
    assert isinstance(service, FakeService)
    assert service.nbytes == GIB
    with pytest.raises(ConfigurationError, match="service minilm computes in the node and needs a device"):
        load_service(TorchDeclaration(name="minilm", source="minilm"), tmp_path, None)


def test_a_canary_cannot_expect_what_is_no_number() -> None:
    with pytest.raises(ValidationError):
        FakeDeclaration.model_validate(
            {"name": "a", "canary": {"payload": {}, "expected": [1.0], "tolerance": float("nan")}}
        )
