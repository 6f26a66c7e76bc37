"""Reads and writes the files of a workspace, and watches those of pending proposals."""
