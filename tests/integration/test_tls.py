"""The broker behind TLS with a CA of our own: everything goes by the URL."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from compose.broker import broker_config, check_broker
from compose.broker_binary import find_broker
from compose.embedded import Stack
from compose.stack_config import ApiNodeConfig, ProviderConfig, StackConfig
from tangram_tasks import BrokerUnavailable, TangramApp
from tests.conftest import unavailable
from tests.support import actions
from tests.waiting import wait_until

WAIT = 20


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_certificates(folder: Path) -> None:
    """Make ca.crt, and server.crt and server.key signed by it for 127.0.0.1."""
    days = ("-days", "2")
    new_key = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(folder, *new_key, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test CA", *days)
    openssl(folder, *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=broker")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1", encoding="utf-8")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl(folder, "x509", "-req", "-in", "server.csr", "-out", "server.crt", *signed, *days)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the URL of a server that speaks nothing but TLS, and the folder of its certificates."""
    if shutil.which("openssl") is None:
        unavailable("no openssl to make certificates")
    folder = tmp_path_factory.mktemp("tls")
    make_certificates(folder)
    config = broker_config(folder)
    lines = [line for line in config.text().splitlines() if not line.startswith("port ")]
    lines += ["port 0", f"tls-port {config.port}", "tls-auth-clients no"]
    lines += [f"tls-cert-file {folder}/server.crt", f"tls-key-file {folder}/server.key"]
    (folder / "broker.conf").write_text("\n".join([*lines, f"tls-ca-cert-file {folder}/ca.crt", ""]), encoding="utf-8")
    process = subprocess.Popen([find_broker(), str(folder / "broker.conf")], stdout=subprocess.DEVNULL)
    plain = config.url.replace("redis://", "rediss://")
    url = f"{plain}?ssl_cert_reqs=required&ssl_ca_certs={folder}/ca.crt"
    try:
        wait_until(lambda: answers(url), "the server answers")
        yield url, folder
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    try:
        check_broker(url, timeout=1.0)
    except BrokerUnavailable:
        return False
    return True


def test_an_unknown_ca_and_plain_text_are_refused(secured: tuple[str, Path]) -> None:
    url, _ = secured
    assert not answers(url.partition("?")[0])
    assert not answers(url.partition("?")[0].replace("rediss://", "redis://"))


async def test_actions_run_over_tls(secured: tuple[str, Path]) -> None:
    url, _ = secured
    providers = {"noop": ProviderConfig(base_url="http://127.0.0.1:9", concurrency=2)}
    node = ApiNodeConfig(name="api-1", providers=providers)
    with Stack(StackConfig(broker_url=url, api=(node,), imports=("tests.support.actions",))):
        app = TangramApp("client", broker=url)
        app.set_current()
        assert actions.add.delay(1, 2).get(timeout=WAIT) == 3
        assert await actions.add.adelay(2, 2) == 4
        with redis.Redis.from_url(url) as client:
            assert client.ping()
        app.close()
