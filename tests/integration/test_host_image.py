"""Host images: what is laid out how, and which modules are refused."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch
from torch import Tensor, nn

from tests.support.toy_services import Scorer, TiedScorer
from workers.arena import ALIGNMENT
from workers.device_ops import CpuOps
from workers.host_image import BLOCK, HostImage
from workers.pageable import NotPageable
from workers.replica import Replica, clone

pytestmark = NEEDS_TORCH


def _image(module: nn.Module) -> HostImage:
    return HostImage.from_module(module.eval(), CpuOps())


def _replica(module: nn.Module, image: HostImage) -> Replica:
    return Replica("toy", module, image, CpuOps(), CpuOps().arena(image.nbytes))


class Mixed(nn.Module):
    """One tensor of every kind that pages."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64):
            self.register_parameter(str(dtype).replace("torch.", "p_"), nn.Parameter(torch.randn(3, 5).to(dtype)))
        self.register_buffer("int8", torch.randint(-9, 9, (7,), dtype=torch.int8))
        self.register_buffer("bool", torch.rand(9) > 0.5)
        self.register_buffer("scalar", torch.tensor(3.5))
        self.register_buffer("empty", torch.empty(0, 4))
        self.register_buffer("none", None)
        self.register_buffer("transposed", torch.randn(4, 6).t(), persistent=False)
        self.register_buffer("expanded", torch.randn(4, 1).expand(4, 8))
        self.register_buffer("strided", torch.randn(1, 3, 4, 4).contiguous(memory_format=torch.channels_last))
        self.register_buffer("every_other", torch.arange(1000, dtype=torch.float32)[100::2])


def test_every_kind_of_tensor_survives_with_its_strides() -> None:
    module = Mixed()
    before = {name: (tensor.clone(), tensor.stride()) for name, tensor in module.named_buffers()}
    before |= {name: (tensor.detach().clone(), tensor.stride()) for name, tensor in module.named_parameters()}
    replica = _replica(module, _image(module))
    for _ in range(3):
        replica.page_in(0)
        replica.page_out()
    replica.page_in(0)

    after: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert after.keys() == before.keys()
    for name, (value, stride) in before.items():
        assert torch.equal(after[name], value), name
        assert after[name].stride() == stride, name
        assert after[name].dtype == value.dtype, name


def test_tensors_start_on_the_alignment_and_shared_bytes_are_kept_once() -> None:
    module = TiedScorer(seed=0)
    image = _image(module)

    assert image.nbytes == (8192 * 32 + 64 * 32) * 4  # embedding = head; key and value side by side
    assert image.buffer.data_ptr() % ALIGNMENT == 0
    assert all(segment.offset % ALIGNMENT == 0 for segment in image.segments.values())


def test_tied_weights_stay_one_parameter_and_views_one_storage() -> None:
    module = TiedScorer(seed=0)
    replica = _replica(module, _image(module))
    replica.page_in(0)

    assert module.head.weight is module.embedding.weight
    assert module.key.untyped_storage().data_ptr() == module.value.untyped_storage().data_ptr()
    assert not module.value.is_contiguous()


def test_unaligned_views_of_different_types_keep_their_place() -> None:
    raw = torch.arange(4096, dtype=torch.uint8)
    module = nn.Module()
    module.register_buffer("wide", raw[1028:2052].view(torch.float32))
    module.register_buffer("narrow", raw[1026:1030].view(torch.int16))
    wide, narrow = module.get_buffer("wide").clone(), module.get_buffer("narrow").clone()
    _replica(module, _image(module)).page_in(0)

    assert torch.equal(module.get_buffer("wide").view(torch.uint8), wide.view(torch.uint8))
    assert torch.equal(module.get_buffer("narrow"), narrow)


def test_a_parked_module_can_still_be_saved() -> None:
    module = Scorer(16, seed=0).eval()
    before = copy.deepcopy(module.state_dict())
    replica = _replica(module, _image(module))
    replica.page_in(0)
    replica.page_out()
    replica._memory.fill_(0xFF)

    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_any_wrong_byte_is_found_by_the_full_check_and_soon_by_the_sampled_one() -> None:
    module = nn.Module()
    module.register_buffer("weights", torch.zeros(6 * BLOCK, dtype=torch.uint8))
    image = _image(module)
    copied = image.buffer.clone()
    assert image.intact(copied, blocks=None)
    copied[5 * BLOCK + 77] = 1

    assert not image.intact(copied, blocks=None)
    assert [image.intact(copied, blocks=2) for _ in range(3)] == [True, True, False]


def test_replicas_share_the_image_and_nothing_else() -> None:
    module = TiedScorer(seed=0).eval()
    image = _image(module)
    second = clone(module)
    one, two = _replica(module, image), _replica(second, image)
    one.page_in(0)

    assert isinstance(second, TiedScorer)
    assert second.head.weight is second.embedding.weight
    assert second.key.untyped_storage().data_ptr() == image.buffer.untyped_storage().data_ptr()
    two.page_in(0)
    assert second.key.untyped_storage().data_ptr() != module.key.untyped_storage().data_ptr()
    assert torch.equal(second.key, module.key)


def _quantized() -> nn.Module:
    with warnings.catch_warnings():
        # torch announces the end of its own quantization; services in use still carry such modules.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        return torch.ao.quantization.quantize_dynamic(Scorer(8, seed=0).eval(), {nn.Linear}, dtype=torch.qint8)  # type: ignore[no-untyped-call, no-any-return]  # torch's


def _with_attribute(value: object) -> nn.Module:
    module = Scorer(8, seed=0)
    module.cache = value  # type: ignore[assignment]  # nn.Module takes anything
    return module


def _with_hanging_state() -> nn.Module:
    module = Scorer(8, seed=0)
    module.layers[0].weight.quant_state = [torch.ones(1)]  # type: ignore[union-attr]  # bitsandbytes does this
    return module


class Subclassed(Tensor):
    """A tensor with insides of its own."""


def _scripted() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as above
        return torch.jit.script(nn.Linear(2, 2).eval())


def _with_subclass() -> nn.Module:
    module = Scorer(8, seed=0)
    module.register_buffer("odd", torch.ones(4).as_subclass(Subclassed))
    return module


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: nn.Sequential(nn.ReLU()), "no parameters or buffers"),
        (_quantized, "packed inside torch"),
        (_scripted, "TorchScript"),
        (lambda: _with_attribute(torch.ones(1)), "the module.cache is a plain tensor attribute"),
        (lambda: _with_attribute({"k": torch.ones(1)}), "the module.cache is a plain tensor attribute"),
        (_with_hanging_state, r"layers\.0\.weight\.quant_state"),
        (_with_subclass, "odd is a Subclassed"),
        (lambda: nn.Linear(2, 2, device="meta"), "meta device"),
        (lambda: nn.LazyLinear(2), "UninitializedParameter"),
    ],
)
def test_what_cannot_be_paged_is_refused_by_name(build: Callable[[], nn.Module], named: str) -> None:
    with pytest.raises(NotPageable, match=named):
        _image(build())


def test_a_compiled_module_answers_the_same_from_any_address() -> None:
    module = Scorer(64, seed=5).eval().requires_grad_(False)
    numbers = torch.tensor([0.5, -1.0, 2.0])
    with torch.inference_mode():
        expected = module(numbers)
        compiled: nn.Module = torch.compile(module, backend="eager")  # type: ignore[assignment]  # a module of torch's
        image = _image(compiled.eval())
        replica = Replica("toy", compiled, image, CpuOps(), CpuOps().arena(2 * image.nbytes))
        replica.leased = True
        for offset in (0, image.nbytes, 0):
            replica.page_in(offset)
            assert torch.equal(compiled(numbers), expected)
            assert replica.settle() == ""
            replica.page_out()


def test_a_module_in_training_mode_is_refused() -> None:
    with pytest.raises(NotPageable, match="training mode"):
        HostImage.from_module(Scorer(8, seed=0).train(), CpuOps())


def test_a_mutable_name_must_exist() -> None:
    with pytest.raises(NotPageable, match="not in the module: totl"):
        HostImage.from_module(Scorer(8, seed=0).eval(), CpuOps(), mutable=["totl"])
