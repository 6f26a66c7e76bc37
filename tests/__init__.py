"""The tests. Whatever the environment says, what they import is kept compiled, from the first import on."""

import sys

sys.dont_write_bytecode = False
