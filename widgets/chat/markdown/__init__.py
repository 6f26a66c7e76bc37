"""Incremental Markdown rendering: styled lines for a width, while the text still grows."""
