"""Text that people see: unsafe and deceiving characters, decoding, and wording."""
