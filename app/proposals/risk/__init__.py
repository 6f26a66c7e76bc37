"""Finds what deserves attention in a proposal, and orders its files for review."""
