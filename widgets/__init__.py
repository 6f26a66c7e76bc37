"""Widgets render state and post messages; they do no I/O and hold no agent logic."""
