"""Lets this package's log lines appear among MindFormers' own, on its console and in its files."""

import logging

from mindformers.tools.logger import get_logger


class MindFormersLog(logging.Handler):
    """Hands records on to MindFormers' logger, which changes whenever ``output_dir`` does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Handles the record there."""
        host: logging.Logger = get_logger()
        host.handle(record)


def join_mindformers_log() -> None:
    """Attaches the package's logger, unless the program has set it up itself."""
    package = logging.getLogger("mindformers_megatron")
    if not package.handlers:
        package.addHandler(MindFormersLog())
        package.setLevel(logging.INFO)
