"""Endless mutated diffs, compared with `git apply`: `uv run python -m tests.fuzz --minutes 60`."""
