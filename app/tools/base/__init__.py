"""Basics of every tool: the contract, targets of paths, staging of edits, and JSON schemas."""
