"""The test suite. Python caches the bytecode of its modules even if the environment disables the cache."""

import sys

sys.dont_write_bytecode = False
