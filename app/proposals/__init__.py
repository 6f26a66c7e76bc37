"""Proposals: edits resolved to bytes, decided by hunk, applied whole or not at all, undone byte for byte."""
