"""The approval pane."""
