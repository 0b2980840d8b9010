"""A simulator of vLLM with `--enable-sleep-mode` and VLLM_SERVER_DEV_MODE=1.

* Parameters of `/sleep` and `/wake_up` are read from the query string; a JSON body is ignored.
* `/sleep` aborts what runs unless `mode=wait`. A request to a sleeping engine kills it.
* Level 2 drops the weights: without `reload_weights` it answers nonsense.
"""

from __future__ import annotations

from typing import Any

from tests.support.engine_simulators.simulator import EngineSimulator, Refused, Request

_TAGS = frozenset({"weights", "kv_cache"})


class VllmSimulator(EngineSimulator):
    """See the module."""

    def __init__(self, *arguments: Any, dev_mode: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.dev_mode = dev_mode
        self.level = 0
        self.away: frozenset[str] = frozenset()

    def answer(self, request: Request) -> Any:
        """Route a request."""
        commands = {
            "/is_sleeping": self._is_sleeping,
            "/sleep": self._sleep,
            "/wake_up": self._wake_up,
            "/collective_rpc": self._collective_rpc,
            "/reset_prefix_cache": self._reset_prefix_cache,
        }
        if request.path in commands and self.dev_mode:
            return commands[request.path](request)
        questions = {"/score": self._score, "/classify": self._classify, "/v1/completions": self._completions}
        if request.path in questions:
            if self.away:
                raise self.die(f"{request.path} while asleep: illegal memory access")
            with self.computing(request):
                return questions[request.path](request.body)
        raise Refused(404, "Not Found")

    def _is_sleeping(self, request: Request) -> Any:
        return {"is_sleeping": bool(self.away)}

    def _sleep(self, request: Request) -> None:
        level = int(request.query.get("level", ["1"])[0])
        if request.query.get("mode", ["abort"])[0] == "wait":
            with self.idle:
                self.idle.wait_for(lambda: self.in_flight == 0, 30)
        else:
            self.aborted += 1
        if self.faults.lies_asleep:
            return
        with self.lock:
            self.away, self.level = _TAGS, level
            self.weights_right &= level == 1
            self.give_up()

    def _wake_up(self, request: Request) -> None:
        if self.faults.lies_awake:
            return
        with self.lock:
            if self.away == _TAGS:
                self.take()
            self.away -= set(request.query.get("tags", _TAGS))

    def _collective_rpc(self, request: Request) -> Any:
        if request.body != {"method": "reload_weights"}:
            raise Refused(400, "unknown method")
        self.weights_right = not self.faults.garbage
        return {"results": [None]}

    def _reset_prefix_cache(self, request: Request) -> None:
        """Nothing is cached."""

    def _score(self, body: Any) -> Any:
        pairs = zip(body["text_1"], body["text_2"], strict=True)
        rows = [{"index": index, "score": self.similarity(*pair)} for index, pair in enumerate(pairs)]
        return {"object": "list", "model": body.get("model"), "data": rows[::-1]}

    def _classify(self, body: Any) -> Any:
        values = [self.similarity(text, "good answer") for text in body["input"]]
        return {
            "data": [{"index": at, "label": "x", "probs": [1 - value, value]} for at, value in enumerate(values)],
        }

    def _completions(self, body: Any) -> Any:
        assert body["echo"] is True
        return {"choices": [self._echo(index, text) for index, text in enumerate(body["prompt"])]}

    def _echo(self, index: int, text: str) -> Any:
        """One character is one token; its log-probability is minus its place in the text."""
        tokens = [*text, "!"]
        logprobs = [None, *(-float(at) for at in range(1, len(tokens)))]
        return {"index": index, "text": text, "logprobs": {"tokens": tokens, "token_logprobs": logprobs}}
