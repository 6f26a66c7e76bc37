"""The files of a workspace, on disk and with pending proposals applied: read, write, watch and compare them."""
