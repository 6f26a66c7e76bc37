"""Runs the user's checks on a proposal before it is decided on: on the workspace as it would be, not on the disk."""
