"""Shared parts of the tools: the contract, target paths, staging of edits, and JSON schemas."""
