"""Runs commands on a workspace with pending changes applied, and reports what they changed on disk.

`Sandbox.open` gives a `SandboxRun`: the workspace with some pending changes laid over it, in which programs are
executed one after the other. What they wrote is read with `SandboxRun.changes` and `SandboxRun.read`; what is not
read, and not written through, is thrown away at the end. So a check of one proposal, and of the base without it, is

    async with runtime.sandbox.open(runtime.service.check_trees("P7").after) as run:    # before for the base
        ended = await run.execute(["/bin/sh", "-c", line], folder=".", seconds=30, output=take)

where `take` gets the bytes that the program prints, `ended` has its exit code and whether it was stopped at its
limit, and a cancellation leaves no process. `(await sandbox.probe()).mode` says whether that is a layer or the user's
own files, which are put back at the end.
"""
