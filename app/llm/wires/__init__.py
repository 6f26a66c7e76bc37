"""The protocols of endpoints: each builds requests from the same items, and decodes its stream to the same chunks."""
