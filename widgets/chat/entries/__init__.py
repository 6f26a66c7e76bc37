"""Entries of the transcript, with one class for each kind."""
