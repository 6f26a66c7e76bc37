"""Carry out decisions on proposals: approve, deny, undo, redo, resolve conflicts, export."""
