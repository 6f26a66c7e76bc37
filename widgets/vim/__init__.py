"""Vim keys for text areas: a pure state machine, and its connection to a widget."""
