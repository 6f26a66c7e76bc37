"""Finds where in a file an edit belongs."""
