"""Room bookings: intervals, a small CSV reader and text reports."""

from spans.interval import Interval, gaps, intersect, merge, subtract

__all__ = ["Interval", "gaps", "intersect", "merge", "subtract"]
