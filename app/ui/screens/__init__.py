"""Screens that open over the workbench."""
