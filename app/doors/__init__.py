"""Doors for other agents: their edits wait here as proposals, and the agents get the user's decisions."""
