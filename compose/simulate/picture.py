"""A picture, as SVG text: units held and actions waiting over time, one row per policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from compose.simulate.outcome import Load, Outcome

_WIDTH, _LEFT, _RIGHT = 900, 120, 70  # px: whole picture, names, figures
_TOP, _ROW, _GAP = 70, 64, 18  # px: heading, one policy, between policies
_BINS = 360
_UNITS, _WAITING = "#00798c", "#d1495b"


def load_picture(title: str, key: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return an SVG with a row per policy, all on one time axis.

    The area is the share of the units of `key` that actions held, mean per time bin, cut off at all of them (calls
    that nobody gates can be more); the line is how many actions waited, on one scale for all rows.

    Args:
        title: what was simulated.
        key: a key resource that every run has.
        outcomes: one run per policy.
    """
    span = max(outcome.step for outcome in outcomes.values()) or 1
    binned = {name: _binned(outcome.gauges[key].rows, span) for name, outcome in outcomes.items()}
    longest = max((waiting for bins in binned.values() for _, waiting in bins), default=0.0) or 1.0
    body = list(_heading(title, key))
    for place, (name, bins) in enumerate(binned.items()):
        bottom = _TOP + place * (_ROW + _GAP) + _ROW
        body += _row(name, bottom, bins, outcomes[name].capacity[key], longest)
        body += _end(bottom, outcomes[name].step, span)
    height = _TOP + len(binned) * (_ROW + _GAP) + 8
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n{lines}\n</svg>\n'
    )


def _heading(title: str, key: str) -> Iterator[str]:
    yield _text(16, 24, title, size=16, weight="bold")
    for left, colour, what in ((_LEFT, _UNITS, f"{key} units that actions hold"), (380, _WAITING, "actions that wait")):
        yield f'<rect x="{left}" y="38" width="12" height="12" fill="{colour}"/>'
        yield _text(left + 18, 48, what, size=12)
    yield _text(560, 48, "dashed: the step ends", size=12)


def _row(name: str, bottom: int, bins: Sequence[tuple[float, float]], capacity: int, longest: float) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    yield _text(_LEFT - 8, bottom - _ROW // 2, name, anchor="end", weight="bold")
    yield f'<rect x="{_LEFT}" y="{bottom - _ROW}" width="{right - _LEFT}" height="{_ROW}" fill="#f3f3f3"/>'
    held = _points(bottom, [min(1.0, units / capacity) for units, _ in bins])
    yield f'<polygon points="{_LEFT},{bottom} {held} {right},{bottom}" fill="{_UNITS}"/>'
    waiting = _points(bottom, [waiting / longest for _, waiting in bins])
    yield f'<polyline points="{waiting}" fill="none" stroke="{_WAITING}" stroke-width="1.5"/>'
    most = max(waiting for _, waiting in bins)
    yield _text(_LEFT - 8, bottom - _ROW // 2 + 16, f"at most {most:.0f} wait", anchor="end", size=10)


def _end(bottom: int, step: int, span: int) -> Iterator[str]:
    left, top = _LEFT + round((_WIDTH - _LEFT - _RIGHT) * step / span), bottom - _ROW
    yield f'<line x1="{left}" y1="{top}" x2="{left}" y2="{bottom}" stroke="#888" stroke-dasharray="3"/>'
    yield _text(left + 4, top + 10, f"{step / 1000:.0f} s", size=10)


def _points(bottom: int, shares: Sequence[float]) -> str:
    width = (_WIDTH - _LEFT - _RIGHT) / len(shares)
    return " ".join(
        f"{_LEFT + (place + 0.5) * width:.1f},{bottom - _ROW * share:.1f}" for place, share in enumerate(shares)
    )


def _binned(rows: Sequence[Load], span: int) -> list[tuple[float, float]]:
    """Return (mean units, mean waiting) of equal time bins from 0 to `span` ms."""
    width = span / _BINS
    sums = [[0.0, 0.0] for _ in range(_BINS)]
    for row, after in zip(rows, [*rows[1:], Load(span, 0, 0)], strict=True):
        for place in range(int(row.at / width), min(_BINS, int(after.at / width) + 1)):
            overlap = max(0.0, min(after.at, (place + 1) * width) - max(row.at, place * width))
            sums[place][0] += row.units * overlap
            sums[place][1] += row.waiting * overlap
    return [(units / width, waiting / width) for units, waiting in sums]


def _text(x: int, y: int, text: str, *, size: int = 13, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
