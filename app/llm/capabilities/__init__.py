"""What an endpoint honours: known from its vendor, learned from its answers, asked by probes."""
