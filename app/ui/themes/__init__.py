"""Themes: the first one, those of the user, and how they fit few colours."""
