"""What a call may do to a module's tensors, and how it is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.torch_tests import NEEDS_TORCH  # isort: skip  # must run before torch is imported
import torch
from torch import Tensor, nn

from workers.device_ops import CpuOps
from workers.host_image import BLOCK, HostImage
from workers.replica import Replica

pytestmark = NEEDS_TORCH


class Counter(nn.Module):
    """Counts its calls, in the way that it is told."""

    def __init__(self, count: Callable[[Counter], object]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000), requires_grad=False)
        self.register_buffer("total", torch.zeros(1))
        self.total: Tensor
        self._count = count

    def forward(self) -> Tensor:
        self._count(self)
        return self.weight[:1] * self.total


def _add(module: Counter) -> None:
    module.total += 1


def _replace(module: Counter) -> None:
    module.total = module.total + 1


def _behind_its_back(module: Counter) -> None:
    module.total.data += 1


def _point_elsewhere(module: Counter) -> None:
    module.total.data = module.total + 1


def _replica(module: nn.Module, *mutable: str, on_relocate: Callable[[nn.Module], None] | None = None) -> Replica:
    ops = CpuOps()
    image = HostImage.from_module(module.eval(), ops, mutable=mutable)
    return Replica("counter", module, image, ops, ops.arena(2 * image.nbytes), on_relocate=on_relocate)


def _call(replica: Replica) -> tuple[float, str]:
    """Return the answer of one use, and what was found at its end."""
    replica.page_in(0)
    replica.leased = True
    with torch.inference_mode():
        answer = replica.module().item()
    replica.leased = False
    found = replica.settle()
    replica.page_out()
    return answer, found


def test_a_call_that_changes_nothing_is_fine() -> None:
    assert _call(_replica(Counter(lambda module: None))) == (0.0, "")


@pytest.mark.parametrize("count", [_add, _replace, _behind_its_back, _point_elsewhere])
def test_a_change_that_was_not_declared_is_noticed(count: Callable[[Counter], object]) -> None:
    _, found = _call(_replica(Counter(count)))
    assert "service counter" in found


@pytest.mark.parametrize("count", [_add, _replace, _behind_its_back, _point_elsewhere])
def test_a_declared_change_lasts(count: Callable[[Counter], object]) -> None:
    replica = _replica(Counter(count), "total")
    assert [_call(replica) for _ in range(3)] == [(1.0, ""), (2.0, ""), (3.0, "")]
    assert replica.module.state_dict()["total"].item() == 3.0


def test_a_buffer_of_another_shape_is_refused() -> None:
    replica = _replica(Counter(lambda module: None), "total")
    replica.page_in(0)
    replica.module.total = torch.zeros(2)
    assert "total" in replica.settle()


def test_a_write_through_data_to_a_large_model_is_found_in_the_end() -> None:
    module = Counter(lambda module: None)
    module.weight = nn.Parameter(torch.ones(3 * BLOCK // 4), requires_grad=False)
    replica = _replica(module)
    replica.page_in(0)
    with torch.inference_mode():
        module.weight.data[-1] += 1
    assert any(replica.settle() for _ in range(4))


def test_addresses_are_told_again_after_a_listener_that_failed() -> None:
    told: list[int] = []

    def listen(module: nn.Module) -> None:
        told.append(len(told))
        if len(told) == 1:
            raise RuntimeError("the graph could not be captured")

    replica = _replica(Counter(lambda module: None), on_relocate=listen)
    with pytest.raises(RuntimeError, match="captured"):
        replica.page_in(0)
    replica.page_out()
    replica.page_in(0)
    assert told == [0, 1]
