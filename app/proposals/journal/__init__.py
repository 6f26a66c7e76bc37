"""Applies a planned change set as a whole, rolls it back, and recovers after a crash."""
