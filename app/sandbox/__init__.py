"""Runs a command on the workspace as it would be, and tells what it changed; the workspace itself stays as it is.

`Sandbox.open` gives a `Run`: the workspace with some pending changes laid over it, in which commands are executed one
after the other. What they wrote is read with `Run.changes`, or thrown away by leaving it at that:

    async with sandbox.open(pending) as run:
        ended = await run.execute(argv, folder=".", seconds=60, output=take)
        found = await run.changes()
"""
