"""The demo model and its sample repository."""
