"""Apply a planned change set as a whole, roll it back, and recover after a crash."""
