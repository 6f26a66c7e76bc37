"""Entries of the transcript: one class for each kind, which knows how it looks."""
