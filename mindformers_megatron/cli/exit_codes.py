"""How the errors of a program become messages of one line and exit codes."""

import os
import sys
from collections.abc import Callable

from mindformers_megatron.errors import ConfigError, DataError


def exit_code(program: str, work: Callable[[], int]) -> int:
    """Does the work of a program; returns its exit code (0 done, 1 failed work, 2 usage, 130 interrupted)."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever reads has seen enough (``| head``). Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ConfigError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except (DataError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
