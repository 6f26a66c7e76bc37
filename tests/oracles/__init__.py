"""Checks of whole request bodies against the known rules of the vendors' APIs."""
