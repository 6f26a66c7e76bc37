"""Themes: the first theme, theme files of signoff and the user, and themes for few colours."""
