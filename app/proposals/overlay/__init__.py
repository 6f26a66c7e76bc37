"""The workspace with pending proposals applied, and re-basing on the disk."""
