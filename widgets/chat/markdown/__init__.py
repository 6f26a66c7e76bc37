"""Markdown as styled lines for a width, while it is still being written."""
