"""The app without a screen: an open workspace, its model, and its session."""
