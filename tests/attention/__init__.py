"""Whether what deserves eyes comes first: on commits of our own with a planted defect, and on any repository."""
