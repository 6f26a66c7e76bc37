"""What every tool builds on: the contract, targets of paths, staging of edits, and JSON schemas."""
