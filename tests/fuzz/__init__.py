"""Mutated diffs without end, against `git apply`: `uv run python -m tests.fuzz --minutes 60`."""
