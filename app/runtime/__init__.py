"""Composition without a screen: an open workspace, its model, its session."""
