"""The workspace as it would be with pending proposals applied, and re-basing on what is on disk."""
