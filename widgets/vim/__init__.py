"""Vim keys for text areas: a pure state machine, and the code that applies it to a widget."""
