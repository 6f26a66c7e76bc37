"""Values of the proposals engine: proposals, hunks, origins, record entries, errors, and the port to the store."""
