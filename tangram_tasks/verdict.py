"""An outcome that the scheduler decided, in a message's header."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict

from tangram_tasks import errors


class Verdict(BaseModel):
    """The action does not run; a worker, who knows its task, ends it with this error.

    Args:
        error: class name in `tangram_tasks.errors`.
        args: the error's arguments.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: str
    args: tuple[str | float, ...] = ()

    @classmethod
    def of(cls, error: errors.TangramError) -> Self:
        """Return the verdict that says this error."""
        return cls(error=type(error).__name__, args=error.args)

    def as_error(self) -> errors.TangramError:
        """Return the error; one of a newer version becomes a plain TangramError."""
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, errors.TangramError):
            return kind(*self.args)
        return errors.TangramError(f"{self.error}: {', '.join(map(str, self.args))}")
