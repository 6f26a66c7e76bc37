"""Widgets that several panes use."""
