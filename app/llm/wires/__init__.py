"""The protocols of endpoints: each makes a request of the same items, and reads its stream into the same chunks."""
