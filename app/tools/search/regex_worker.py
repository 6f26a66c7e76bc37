"""Match a model's regular expression in a separate process: some expressions take forever and can't be interrupted.

Run as a script that uses only the standard library. Each line on stdin and stdout is one JSON value. The first
request is the expression as `{"pattern": …, "ignore_case": …}`, answered by an error message or null. Then come
batches of files, each file a list of lines, answered by a list of `[file, line, column]` (from 0) for the matching
lines.
"""

import json
import re
import signal
import sys
import warnings


def main() -> None:
    """Match the lines of requests until stdin ends, or until the number of seconds on the command line has passed."""
    # If signoff is killed, no process ends this one, and a running match does not check stdin.
    signal.alarm(int(sys.argv[1]))
    warnings.simplefilter("ignore")
    request = json.loads(sys.stdin.readline())
    try:
        expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        _write_answer(str(error) or type(error).__name__)
        return
    _write_answer(None)
    for line in sys.stdin:
        _write_answer(
            [
                [file, number, found.start()]
                for file, rows in enumerate(json.loads(line))
                for number, row in enumerate(rows)
                if (found := expression.search(row))
            ]
        )


def _write_answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
