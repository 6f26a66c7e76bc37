"""The model client: streaming, retries, capability profiles, and the protocols of model servers."""
