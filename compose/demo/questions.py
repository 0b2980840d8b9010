"""What the reward models are asked at the end of a trajectory."""

from __future__ import annotations

REFERENCE = (
    "merge() shortened the previous interval when a nested one followed; it now keeps the larger of both ends, "
    "so nested intervals stay covered."
)

#: Final answers that tell the same, by trajectory number.
ANSWERS = (
    "The bug was in merge: a nested interval cut off the end of the outer one. I take the maximum of the two ends now.",
    "Fixed interval merging. When one interval lies inside another, the merged interval keeps the later end.",
    "merge() used the end of the last interval even if it was smaller; using max() keeps nested intervals covered.",
)

OFF_TOPIC = "The train to the coast leaves at nine, and the tickets are sold at the counter."

#: Prompt, right continuation, wrong continuation, by trajectory number.
CONTINUATIONS = (
    ("The capital of France is", " Paris.", " banana."),
    ("In Python, the number of items in a list is returned by the function", " len().", " purple()."),
    ("Two plus two equals", " four.", " a bicycle."),
)
