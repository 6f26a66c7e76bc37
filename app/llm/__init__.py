"""The OpenAI-compatible client: streaming, retries, capability profiles."""
