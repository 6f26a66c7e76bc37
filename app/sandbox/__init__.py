"""Runs commands on a workspace with pending changes applied, and reports what they changed on disk.

`Sandbox.open_run` returns a `SandboxedWorkspace`: the workspace with pending changes applied, in which programs are
executed one after the other. Its `find_changes` and `read_change` return the changes that the programs made; changes
that are neither read nor written back are lost at the end. To check one proposal:

    async with runtime.sandbox.open_run(runtime.service.versions_to_check("P7").after) as run:
        ended = await run.execute(["/bin/sh", "-c", line], folder=".", seconds=30, output=receive)

`.before` instead of `.after` is the content without the proposal. `receive` gets the bytes that the program prints.
`ended` has its exit code and whether it was stopped at its time limit. A cancellation leaves no process running.
`(await sandbox.probe()).mode` is the `CommandWriteMode`: on an overlay, or on the user's own files, which are
restored at the end.
"""
