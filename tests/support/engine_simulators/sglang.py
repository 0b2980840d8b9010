"""A simulator of SGLang with `--enable-memory-saver --enable-weights-cpu-backup`.

* Every command needs a JSON body. There is no way to ask whether memory was released.
* `/release_memory_occupation` asserts that the scheduler is idle and its cache flushed; otherwise the server dies.
* `/resume_memory_occupation` dies with a KeyError on a tag that was not released.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.engine_simulators.simulator import EngineSimulator, Refused, Request

_TAGS = ("kv_cache", "weights", "cuda_graph")


class SglangSimulator(EngineSimulator):
    """See the module."""

    def __init__(self, *arguments: Any, weights_backup: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.weights_backup = weights_backup
        self.seed = random.randrange(2**30)
        self.released: set[str] = set()
        self.paused = False
        self.cached = True

    def restart(self) -> None:
        """Be a new process: serving, with a new seed."""
        self.seed += 1
        self.deaths.clear()
        self.released.clear()
        self.paused = False
        assert self.device.hold(self.url, self.residual + self.nbytes)

    def answer(self, request: Request) -> Any:
        """Route a request."""
        if request.path == "/get_server_info":
            return {"model_path": "simulated", "random_seed": self.seed}
        commands = {
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/flush_cache": self._flush,
            "/release_memory_occupation": self._release,
            "/resume_memory_occupation": self._resume,
        }
        if request.path in commands:
            return commands[request.path](request.body)
        if request.path == "/health_generate":
            return self._compute(request, lambda _: None)
        questions = {"/v1/rerank": self._rerank, "/classify": self._classify, "/generate": self._generate}
        if request.path in questions:
            return self._compute(request, questions[request.path])
        raise Refused(404, "Not Found")

    def _compute(self, request: Request, question: Any) -> Any:
        if self.released:
            raise self.die("a request while memory is released")
        if self.paused:
            raise Refused(503, "generation is paused")
        with self.computing(request):
            self.cached = True
            return question(request.body if request.method == "POST" else None)

    def _pause(self, body: Any) -> Any:
        self.paused = True
        self.aborted += 1
        return {"status": "ok"}

    def _continue(self, body: Any) -> Any:
        self.paused = False
        return {"status": "ok"}

    def _flush(self, body: Any) -> Any:
        if self.in_flight:
            raise Refused(400, "requests are running")
        self.cached = False
        return None

    def _release(self, body: Any) -> None:
        if self.in_flight or self.cached:
            raise self.die("AssertionError: release_memory_occupation while not idle")
        if self.faults.lies_asleep:
            return
        first = not self.released
        self.released |= set(body.get("tags") or _TAGS)
        if first:
            self.give_up()

    def _resume(self, body: Any) -> None:
        tags = set(body.get("tags") or _TAGS)
        if not tags <= self.released:
            raise self.die(f"KeyError: {sorted(tags - self.released)[0]}")
        if self.faults.lies_awake:
            return
        self.take()
        self.weights_right &= self.weights_backup
        self.released -= tags

    def _rerank(self, body: Any) -> Any:
        scores = [self.similarity(body["query"], text) for text in body["documents"]]
        return [{"score": score, "index": index} for index, score in enumerate(scores)]

    def _classify(self, body: Any) -> Any:
        return [{"embedding": [self.similarity(text, "good answer")]} for text in body["text"]]

    def _generate(self, body: Any) -> Any:
        assert body["return_logprob"]
        return [self._echo(text) for text in body["text"]]

    def _echo(self, text: str) -> Any:
        """One character is one token; its log-probability is minus its place in the text."""
        rows = [[None if at == 0 else -float(at), ord(letter), letter] for at, letter in enumerate(text)]
        return {"text": "!", "meta_info": {"input_token_logprobs": rows}}
