"""The numbers that stand for outcomes of a contribution in programs that are saved."""

ADDED, STALE, DUPLICATE, AHEAD = range(1, 5)
