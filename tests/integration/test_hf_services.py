"""Services from local Hugging Face folders and safetensors files, paged on a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import safetensors.torch
import torch

from tangram_tasks.errors import ConfigurationError
from tests.support import hf_folders
from tests.support.toy_services import Scorer
from workers.gpu_node import GpuNode
from workers.model_files import offline_transformers
from workers.torch_service import LoadContext, Model

pytestmark = NEEDS_TORCH

PAIRS = [["the cat", "sat"], ["the dog", "ran"], ["the cat sat", "no"]]
Serve = Callable[..., GpuNode]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Yield a function that starts a node with declared services."""
    nodes: list[GpuNode] = []

    def start(*rows: str) -> GpuNode:
        file = tmp_path / "services.yaml"
        file.write_text("services:\n" + "".join(f"  - {{kind: torch, {row}}}\n" for row in rows))
        nodes.append(GpuNode(node="gpu-1", state_dir=tmp_path, services=(str(file),), devices=1))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


def _ask(node: GpuNode, service: str, method: str, payload: dict[str, Any]) -> list[Any]:
    with node.lease(service=service, action="a1", units=1, deadline=time.monotonic() + 30) as lease:
        return lease.call(method, payload)


def _scores(folder: Path, module: Any, pairs: list[list[str]]) -> list[float]:
    transformers = offline_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with torch.inference_mode():
        found = [module(**tokenizer(*pair, return_tensors="pt")).logits[0, 0].item() for pair in pairs]
    return [float(value) for value in found]


def test_a_classifier_scores_pairs(serve: Serve, tmp_path: Path) -> None:
    folder = hf_folders.classifier(tmp_path / "judge")
    node = serve("name: judge, source: ./judge, batch: 1")
    transformers = offline_transformers()
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()

    assert _ask(node, "judge", "score", {"pairs": PAIRS}) == _scores(folder, module, PAIRS)
    assert len(_ask(node, "judge", "classify", {"texts": ["the cat"]})[0]) == 1


def test_a_classifier_of_several_labels_needs_to_know_which_one_scores(serve: Serve, tmp_path: Path) -> None:
    hf_folders.classifier(tmp_path / "judge", labels=3)
    with pytest.raises(ConfigurationError, match="service judge: it has 3 labels: set label, from 0 to 2"):
        serve("name: judge, source: ./judge")
    node = serve("name: judge, source: ./judge, label: 2")
    shares = _ask(node, "judge", "classify", {"texts": ["the cat", "the dog ran"]})
    assert [sum(row) for row in shares] == pytest.approx([1.0, 1.0])
    assert all(0 < score < 1 for score in _ask(node, "judge", "score", {"pairs": PAIRS}))


def test_a_chat_model_is_shown_a_conversation_and_padding_changes_nothing(serve: Serve, tmp_path: Path) -> None:
    hf_folders.chat_classifier(tmp_path / "judge")
    together = _ask(serve("name: judge, source: ./judge"), "judge", "score", {"pairs": PAIRS})
    alone = _ask(serve("name: judge, source: ./judge, batch: 1"), "judge", "score", {"pairs": PAIRS})
    assert together == pytest.approx(alone, abs=1e-5)
    assert len(set(together)) == 3


def test_a_conversation_has_one_start_token(serve: Serve, tmp_path: Path) -> None:
    folder = hf_folders.chat_classifier_with_start(tmp_path / "judge")
    transformers = offline_transformers()
    module = transformers.AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    turns = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}]
    tokens = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
    assert tokens["input_ids"][0].tolist().count(tokenizer.convert_tokens_to_ids("[BOS]")) == 1
    with torch.inference_mode():
        expected = module(**tokens).logits[0, 0].item()

    found = _ask(serve("name: judge, source: ./judge"), "judge", "score", {"pairs": [["the cat", "sat"]]})
    assert found == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize("build", [hf_folders.language_model, hf_folders.absolute_language_model])
def test_what_is_asked_beside_it_does_not_change_a_teachers_answer(
    serve: Serve, tmp_path: Path, build: Callable[[Path], Path]
) -> None:
    build(tmp_path / "teacher")
    node = serve("name: teacher, source: ./teacher, max_tokens: 32, task: causal_lm")
    short, long = ["the cat", "sat"], ["the cat sat the dog ran the cat sat", "yes no"]
    alone = _ask(node, "teacher", "logprob", {"pairs": [short]}) + _ask(node, "teacher", "logprob", {"pairs": [long]})
    assert _ask(node, "teacher", "logprob", {"pairs": [short, long]}) == pytest.approx(alone, abs=1e-5)


def test_a_language_model_is_a_teacher(serve: Serve, tmp_path: Path) -> None:
    folder = hf_folders.language_model(tmp_path / "teacher")
    node = serve("name: teacher, source: ./teacher, max_tokens: 32")
    transformers = offline_transformers()
    module = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ids = tokenizer("the cat sat ran", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        rows = module(ids).logits.log_softmax(-1)[0]
    expected = (rows[1, ids[0, 2]] + rows[2, ids[0, 3]]).item() / 2

    assert _ask(node, "teacher", "logprob", {"pairs": [["the cat", "sat ran"]]}) == pytest.approx([expected], abs=1e-5)


def test_a_head_that_the_folder_lacks_is_not_made_up(serve: Serve, tmp_path: Path) -> None:
    hf_folders.language_model(tmp_path / "judge")
    with pytest.raises(ConfigurationError, match=r"judge: .*lacks the weights score\.weight: is it the right task"):
        serve("name: judge, source: ./judge, task: sequence_classification, label: 0")


def test_a_truncated_file_is_named_at_the_start(serve: Serve, tmp_path: Path) -> None:
    file = hf_folders.classifier(tmp_path / "judge") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ConfigurationError, match=r"service judge: .*model\.safetensors has \d+ bytes, and should have"):
        serve("name: judge, source: ./judge")


def test_a_missing_folder_is_named_at_the_start(serve: Serve) -> None:
    with pytest.raises(ConfigurationError, match=r"service judge: .*nowhere is no Hugging Face model folder"):
        serve("name: judge, source: ./nowhere")


def build(context: LoadContext) -> Model:
    """The factory of the file below."""
    from tests.support.toy_services import model

    return model(Scorer(16, seed=7))


def test_a_safetensors_file_is_loaded_into_its_factorys_module(serve: Serve, tmp_path: Path) -> None:
    trained = Scorer(16, seed=8).eval()
    safetensors.torch.save_file(trained.state_dict(), tmp_path / "head.safetensors")
    node = serve('name: head, source: head.safetensors, factory: "tests.integration.test_hf_services:build"')
    with torch.inference_mode():
        expected = trained(torch.tensor([1.0, 2.0])).tolist()
    (tmp_path / "head.safetensors").unlink()
    assert _ask(node, "head", "score", {"numbers": [1.0, 2.0]}) == expected, "its bytes are in the image"

    safetensors.torch.save_file({"other": torch.ones(1)}, tmp_path / "head.safetensors")
    with pytest.raises(ConfigurationError, match=r"service head: .*head\.safetensors does not match the module"):
        serve('name: head, source: head.safetensors, factory: "tests.integration.test_hf_services:build"')
