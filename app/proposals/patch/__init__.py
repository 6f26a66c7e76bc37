"""Patches made elsewhere, read, placed and written."""
