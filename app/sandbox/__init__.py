"""Runs commands on a workspace with pending changes applied, and reports what they changed on disk.

`Sandbox.open_run` gives a `SandboxRun`: the workspace with some pending changes laid over it, in which programs are
executed one after the other. `SandboxRun.find_changes` and `SandboxRun.read_change` return what they wrote; changes
that are neither read nor written back are lost at the end. So a check of one proposal, and of the base without it, is

    async with runtime.sandbox.open_run(runtime.service.check_trees("P7").after) as run:    # before for the base
        ended = await run.execute(["/bin/sh", "-c", line], folder=".", seconds=30, output=receive)

where `receive` gets the bytes that the program prints, `ended` has its exit code and whether it was stopped at its
limit, and a cancellation leaves no process. `(await sandbox.probe()).mode` says whether that is a layer or the user's
own files, which are put back at the end.
"""
