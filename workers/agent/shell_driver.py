"""The loop that a session's bash runs, and what it says.

It reads a tag and a folder from the control socket, then runs the file in memory: sourced, not evaluated, so that a
trap's `return` can leave the script wherever it is. The folder is for this one script; empty means where the shell
is. It says the tag before the script; after it, and when the shell exits: the tag, the exit code, the CPU time of
shell and children, the working directory. `builtin` keeps it working when a script defines functions with the names
of its commands.
"""

from __future__ import annotations

import os
import re
import signal
from typing import NamedTuple

INTERRUPT = signal.SIGRTMAX  # scripts hardly trap it
EXIT = "exit"  # said instead of a tag when the shell ends
_TIME = re.compile(rb"(\d{1,9})m(\d{1,2})[.,](\d{1,6})s")
_NEWS = re.compile(rb"(?P<tag>[!-~]{1,300}) (?P<code>\d{1,3})\n(?P<times>[^\n]*\n[^\n]*)\n(?P<cwd>/.*)", re.DOTALL)
_DRIVER = r"""
builtin shopt -s expand_aliases
builtin trap 'builtin return 130 2>/dev/null' RTMAX
builtin trap '{ builtin printf "exit %s\n" "$?"; builtin times; builtin printf "%s\0" "$PWD"; } >&CONTROL' EXIT
while builtin read -r -d '' -u CONTROL TANGRAM_EXEC && builtin read -r -d '' -u CONTROL __tangram_folder; do
    builtin printf '%s\0' "$TANGRAM_EXEC" >&CONTROL
    __tangram_back=$PWD
    [[ -z $__tangram_folder ]] || builtin cd -- "$__tangram_folder"
    builtin . /proc/self/fd/TEXT
    __tangram_code=$?
    [[ -z $__tangram_folder ]] || builtin cd -- "$__tangram_back"
    { builtin printf '%s %s\n' "$TANGRAM_EXEC" "$__tangram_code"; builtin times; builtin printf '%s\0' "$PWD"; } >&CONTROL
done
"""  # noqa: E501


class News(NamedTuple):
    """What the shell said; `cpu` in seconds since it started, its children's included."""

    tag: str
    code: int
    cpu: float
    cwd: str


def driver(control: int, text: int) -> str:
    """Return the loop for these two descriptors."""
    return _DRIVER.replace("CONTROL", str(control)).replace("TEXT", str(text))


def parse_news(message: bytes) -> News | None:
    """Return what a message says; None if it is none of the loop's, but something that a script made up."""
    found = _NEWS.fullmatch(message)
    if not found:
        return None
    cpu = sum(int(m) * 60 + float(b"%b.%b" % (s, part)) for m, s, part in _TIME.findall(found["times"]))
    return News(found["tag"].decode(), int(found["code"]), cpu, os.fsdecode(found["cwd"]))
