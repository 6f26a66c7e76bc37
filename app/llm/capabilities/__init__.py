"""Capabilities of an endpoint: known from its vendor, learned from its answers, found by probes."""
