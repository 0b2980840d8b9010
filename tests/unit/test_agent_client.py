"""The worker's end against agents that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tangram_tasks.errors import SandboxError
from workers.agent import frames
from workers.agent_client import AgentClient, Answer
from workers.cancellation import Cancellation

Behaviour = Callable[[socket.socket], None]
Start = Callable[[Behaviour], AgentClient]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a starter of agents that serve one connection as told; yields their client."""
    opened: list[tuple[AgentClient, threading.Thread]] = []

    def begin(behave: Behaviour) -> AgentClient:
        path = tmp_path / "agent.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener, listener.accept()[0] as connection:
                behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        opened.append((AgentClient(path, "sandbox s"), thread))
        return opened[-1][0]

    yield begin
    for client, thread in opened:
        thread.join(timeout=10)
        client.close()
        client.close()


def receive(connection: socket.socket) -> dict[str, object]:
    received = bytearray()
    while (request := frames.decode(received)) is None:
        received += connection.recv(1 << 16)
    return request[0]


def test_an_answer_in_pieces(start: Start) -> None:
    def behave(connection: socket.socket) -> None:
        assert receive(connection) == {"op": "x"}
        for byte in frames.encode({"a": 1}, b"body"):
            connection.sendall(bytes([byte]))

    assert start(behave).ask({"op": "x"}) == Answer({"a": 1}, b"body")


def test_a_dead_agent_is_told(start: Start) -> None:
    with pytest.raises(SandboxError, match="sandbox s is gone, removed or killed from outside"):
        start(lambda connection: None).ask({"op": "x"})


def test_garbage_is_told(start: Start) -> None:
    def behave(connection: socket.socket) -> None:
        receive(connection)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with pytest.raises(SandboxError, match="cannot be asked"):
        start(behave).ask({"op": "x"})


def test_a_silent_agent_is_given_up(start: Start) -> None:
    def behave(connection: socket.socket) -> None:
        receive(connection)
        connection.recv(1)  # until the client hangs up

    with pytest.raises(SandboxError, match="did not answer within"):
        start(behave).ask({"op": "x"}, timeout=0.05)


def test_cancelling_half_closes_and_still_gets_the_answer(start: Start) -> None:
    cancellation = Cancellation()

    def behave(connection: socket.socket) -> None:
        receive(connection)
        cancellation.cancel()
        assert connection.recv(1) == b""
        connection.sendall(frames.encode({"verdict": "cancelled"}))

    assert start(behave).ask({"op": "x"}, cancellation=cancellation).fields == {"verdict": "cancelled"}
    assert cancellation.wanted


def test_a_closed_client_reaches_nobody(tmp_path: Path) -> None:
    client = AgentClient(tmp_path / "agent.sock", "sandbox s")
    client.close()
    with pytest.raises(SandboxError, match="it was closed"):
        client.ask({"op": "x"})


def test_a_request_that_is_too_large_is_not_sent(tmp_path: Path) -> None:
    client = AgentClient(tmp_path / "agent.sock", "sandbox s")
    with pytest.raises(SandboxError, match="is over"):
        client.ask({"op": "write"}, bytes(frames.MAX_BODY + 1))
    client.close()
