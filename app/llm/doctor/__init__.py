"""Examines an endpoint by small requests, and finds model servers on this machine."""
