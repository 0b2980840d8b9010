"""A picture, as SVG text: mean completion time per task, split, of two runs of the same batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from xml.sax.saxutils import escape

from monitoring.report import BatchReport, TaskReport
from monitoring.tables import seconds, short

_PARTS = ("queue", "overhead", "exec")
_COLOURS = {"queue": "#d1495b", "overhead": "#edae49", "exec": "#00798c"}
_WIDTH, _LEFT, _RIGHT = 860, 190, 90  # px: whole picture, labels, figures behind the bars
_TOP, _BAR, _GROUP = 64, 16, 46  # px: heading, one bar, one task with its two bars


def act_picture(before: BatchReport, after: BatchReport) -> str:
    """Return an SVG with two stacked bars per task.

    A bar's length grows with the square root of its time, so that milliseconds stay visible beside seconds; its
    parts are proportional within it.
    """
    names = sorted({*before.tasks, *after.tasks})
    longest = max([task.act.mean for run in (before, after) for task in run.tasks.values()], default=1.0)
    body = [*_heading(before, after)]
    for place, name in enumerate(names):
        top = _TOP + place * _GROUP
        body.append(_text(_LEFT - 70, top + _BAR + 4, short(name), anchor="end", weight="bold"))
        for offset, run in ((0, before), (_BAR + 2, after)):
            body.append(_text(_LEFT - 8, top + offset + 12, run.name, anchor="end", size=10))
            if name in run.tasks:
                body += _bar(run.tasks[name], top + offset, longest)
    height = _TOP + len(names) * _GROUP
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n{lines}\n</svg>\n'
    )


def _heading(before: BatchReport, after: BatchReport) -> Iterator[str]:
    yield _text(16, 24, f"Mean action completion time: {before.name} and {after.name}", size=16, weight="bold")
    yield _text(16, 46, "bar length: square root of seconds", size=11)
    for place, part in enumerate(_PARTS):
        left = 330 + place * 110
        yield f'<rect x="{left}" y="36" width="12" height="12" fill="{_COLOURS[part]}"/>'
        yield _text(left + 18, 46, part, size=12)


def _bar(task: TaskReport, top: int, longest: float) -> Iterator[str]:
    parts = (task.queue_s, task.overhead_s, task.exec_s)
    total = sum(parts) or 1.0
    length = (_WIDTH - _LEFT - _RIGHT) * (task.act.mean / longest) ** 0.5 if longest else 0.0
    starts = [0.0, *accumulate(parts)]
    for name, part, start in zip(_PARTS, parts, starts, strict=False):
        left, width = _LEFT + length * start / total, length * part / total
        yield f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{_COLOURS[name]}"/>'
    yield _text(round(_LEFT + length) + 6, top + 12, seconds(task.act.mean), size=11)


def _text(x: int, y: int, text: str, *, size: int = 13, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
