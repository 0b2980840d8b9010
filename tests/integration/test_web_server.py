"""The live page's server: what it serves, to whom, and that it ends."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
from collections.abc import Iterator

import pytest

from monitoring.web_server import VIEWERS, WebServer
from tests.support.seeing import fetch


class Feed:
    def latest(self) -> tuple[str, str]:
        return "trouble", json.dumps("no scheduler leads")


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer(0, Feed()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(5)
        assert not thread.is_alive()


def open_stream(server: WebServer) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request("GET", "/events")
    return connection, connection.getresponse()


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css"])
def test_it_serves_its_own_files_and_loads_nothing_from_elsewhere(server: WebServer, path: str) -> None:
    text = fetch(server.url + path).decode().replace("http://www.w3.org/2000/svg", "")
    assert "//" not in text.replace("// ", "")
    assert "innerHTML" not in text


@pytest.mark.parametrize("path", ["/etc/passwd", "/../pyproject.toml", "/web/index.html", "/events/x"])
def test_nothing_else_is_served(server: WebServer, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(server.url + path)
    assert caught.value.code == 404
    caught.value.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(server: WebServer, method: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(server.url + "/", method=method)
    assert caught.value.code == 501
    caught.value.close()


def test_a_foreign_name_is_refused(server: WebServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(server.url + "/", headers={"Host": "evil.example:80"})
    assert caught.value.code == 403
    caught.value.close()


def test_scenes_come_as_events(server: WebServer) -> None:
    connection, answer = open_stream(server)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.readline() == b"event: trouble\n"
    assert answer.readline() == b'data: "no scheduler leads"\n'
    answer.close()
    connection.close()


def test_there_is_an_end_to_how_many_may_look(server: WebServer) -> None:
    streams = [open_stream(server) for _ in range(VIEWERS)]
    refused, answer = open_stream(server)
    assert answer.status == 503
    for connection, stream in [*streams, (refused, answer)]:
        stream.close()
        connection.close()
