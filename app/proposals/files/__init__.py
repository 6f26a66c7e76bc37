"""The files of a workspace, on disk and with pending proposals applied: reads, writes, watches and compares them."""
