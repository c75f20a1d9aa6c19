"""A tokenizer in a process of its own.

Hugging Face's library and a fast engine each take a third of a second to load a large vocabulary, and hold the
interpreter's lock meanwhile: only two processes load both at once.
"""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, cast

from mindformers_megatron.execution.processes import told
from mindformers_megatron.tokenization.engines import Encoded, gigatoken
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import locate

_PROGRAM = "import sys; from mindformers_megatron.tokenization.tokenizer_process import serve; serve(int(sys.argv[1]))"
# What of a tokenizer does not leave its process, but is asked for there.
_ASKED = ("engine", "_find_largest_id", "_json", "_find_around", "_decode")
# How the other end of a pipe is found to be gone.
_LEFT = (EOFError, BrokenPipeError, ConnectionResetError)


@contextlib.contextmanager
def opened_for(engine: str, spec: TokenizerSpec) -> Iterator[Tokenizer]:
    """Opens a tokenizer for work in which ``engine`` encodes, and the tokenizer's own perhaps only compares.

    It is in a process of its own where a fast engine can load the same file in this one meanwhile. Raises as
    ``open_tokenizer`` does.
    """
    kind, files = locate(spec)
    may_be_fast = engine in ("auto", "gigatoken") and importlib.util.find_spec("gigatoken") is not None
    if not may_be_fast or kind != "HuggingFaceTokenizer" or spec.special_tokens_in_text == "split":
        yield open_tokenizer(spec)
        return
    with TokenizerProcess(spec) as process:
        gigatoken.load_ahead(files[0])
        yield process.tokenizer()


class TokenizerProcess:
    """Opens a tokenizer elsewhere, from the moment it is made; safe between threads, which take turns.

    The process ends when this one closes it or is gone, however.

    Args:
        spec: what ``open_tokenizer`` is asked for.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        self._lock = threading.Lock()
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # What the keyboard sends is for this process to decide about.
                start_new_session=True,
            )
        with contextlib.suppress(BrokenPipeError):  # found dead when its answer is asked for
            self._pipe.send(spec)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, when it has been opened; its engine works in the other process. Raises as opening does."""
        with self._lock:
            plain, name, version, has_json, decodes = self._answer()
        return Tokenizer(
            **plain,
            engine=EngineElsewhere(self, name, version),
            _find_largest_id=partial(self.ask, "largest_id"),
            _json=partial(self.ask, "json") if has_json else None,
            _find_around=partial(self.ask, "added_around"),
            _decode=partial(self.ask, "decode") if decodes else None,
        )

    def ask(self, what: str, *arguments: Any) -> Any:
        """The value of an attribute of the tokenizer, or what its method returns.

        Raises:
            ChildProcessError: the process died.
        """
        with self._lock:
            return self._answer((what, arguments))

    def _answer(self, question: Any = None) -> Any:
        try:
            if question is not None:
                self._pipe.send(question)
            failed, content = self._pipe.recv()
        except _LEFT:
            code = self._process.wait()
            reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise ChildProcessError(f"the process that holds the tokenizer {reason}") from None
        if not failed:
            return content
        raise content if isinstance(content, BaseException) else RuntimeError(f"in the tokenizer's process:\n{content}")

    def close(self) -> None:
        """Ends the process, which leaves nothing to be finished."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> "TokenizerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EngineElsewhere:
    """The engine of a tokenizer in another process.

    Args:
        process: where it is.
        name: of the engine there.
        version: of its library.
    """

    def __init__(self, process: TokenizerProcess, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self._process = process

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        return cast(Encoded, self._process.ask("encode", list(texts)))


def serve(descriptor: int) -> None:
    """What the other process does: opens a tokenizer, and answers until nobody listens any more."""
    pipe = Connection(descriptor)
    try:
        try:
            tokenizer = open_tokenizer(pipe.recv())
            methods: dict[str, Callable[..., Any]] = {
                "encode": tokenizer.engine.encode,
                "decode": tokenizer.decode,
                "json": tokenizer.json,
                "added_around": tokenizer.added_around,
                "largest_id": lambda: tokenizer.largest_id,
            }
            plain = {
                field.name: getattr(tokenizer, field.name) for field in fields(tokenizer) if field.name not in _ASKED
            }
            engine = tokenizer.engine
            opened = (plain, engine.name, engine.version, tokenizer._json is not None, tokenizer._decode is not None)
            pipe.send((False, opened))
        except _LEFT:
            raise
        except BaseException as error:
            pipe.send((True, told(error)))
            return
        while True:
            what, arguments = pipe.recv()
            try:
                answer = (False, methods[what](*arguments))
            except BaseException as error:
                answer = (True, told(error))
            pipe.send(answer)
    except _LEFT:
        return
