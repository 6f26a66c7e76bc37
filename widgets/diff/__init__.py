"""The diff preview."""
