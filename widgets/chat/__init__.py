"""The transcript and the composer."""
