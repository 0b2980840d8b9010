"""Amounts of resources, as whole numbers.

`cpu` counts units (one unit is `TANGRAM_CPU_UNIT` cores, by default 1), `gpu` devices, `memory` MiB, and
`api:NAME` calls in flight to the provider NAME.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tangram_tasks.errors import InvalidAction

CPU = "cpu"
GPU = "gpu"
MEMORY = "memory"
API_PREFIX = "api:"

_MEMORY_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
MIB = 2**20


class ResourceVector(Mapping[str, int]):
    """An immutable vector of amounts; a resource it does not name counts as 0.

    Args:
        amounts: resource name to a whole number >= 0. Zeros are dropped.

    Raises:
        InvalidAction: an amount is negative.
    """

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, int] | None = None, /, **named: int) -> None:
        merged = {**(amounts or {}), **named}
        for name, amount in merged.items():
            if amount < 0:
                raise InvalidAction(f"a resource amount cannot be negative: {name}={amount}")
        self._amounts = {name: amount for name, amount in merged.items() if amount}

    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def __add__(self, other: Mapping[str, int]) -> ResourceVector:
        return ResourceVector({name: self[name] + other.get(name, 0) for name in {*self, *other}})

    def __sub__(self, other: Mapping[str, int]) -> ResourceVector:
        """Take `other` away; raises InvalidAction if an amount would fall below 0."""
        return ResourceVector({name: self[name] - other.get(name, 0) for name in {*self, *other}})

    def fits(self, room: Mapping[str, int]) -> bool:
        """Whether `room` has at least this much of everything."""
        return all(amount <= room.get(name, 0) for name, amount in self._amounts.items())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ResourceVector):
            return self._amounts == other._amounts
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts.items()))

    def __repr__(self) -> str:
        return f"ResourceVector({self})"

    def __str__(self) -> str:
        return " ".join(f"{name}={amount}" for name, amount in sorted(self._amounts.items())) or "nothing"


def parse_memory(text: str | int) -> int:
    """Return a memory size in bytes.

    Args:
        text: bytes as a number, or text such as "512MiB", "2GiB", "1.5 GB" (KB, MB, GB are powers of 1000).

    Raises:
        InvalidAction: it does not parse, or is not positive.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise InvalidAction(f"memory must be text such as '2GiB' or a number of bytes, not {text!r}")
    match = _MEMORY_TEXT.fullmatch(str(text))
    if match is None:
        raise InvalidAction(f"cannot read the memory size {text!r}: write '512MiB', '2GiB' or bytes")
    number, prefix, binary = match.groups()
    size = int(float(number) * (1024 if binary or not prefix else 1000) ** _POWER[prefix.upper()])
    if size <= 0:
        raise InvalidAction(f"memory must be more than nothing, not {text!r}")
    return size


def memory_mib(text: str | int) -> int:
    """Return a memory size in whole MiB, rounded up. Raises InvalidAction as `parse_memory` does."""
    return -(-parse_memory(text) // MIB)
