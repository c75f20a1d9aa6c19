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
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, cast

from mindformers_megatron.execution.processes import told
from mindformers_megatron.tokenization.engines import Encoded, gigatoken
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import locate

_PROGRAM = "import sys; from mindformers_megatron.tokenization.tokenizer_process import serve; serve(sys.argv[1:])"
# What of a tokenizer does not leave its process, but is asked for there.
_ASKED = ("engine", "_find_largest_id", "_json", "_find_around", "_decode")
# How the other end of a pipe is found to be gone.
_LEFT = (EOFError, BrokenPipeError, ConnectionResetError)


@contextlib.contextmanager
def opened_for(engine: str, spec: TokenizerSpec, *, workers: int = 0) -> Iterator[Tokenizer]:
    """Opens a tokenizer for work in which ``engine`` encodes, and the tokenizer's own perhaps only compares.

    It is in a process of its own where a fast engine can load the same file in this one meanwhile. Raises as
    ``open_tokenizer`` does.

    Args:
        engine: what encodes, by its name in ``choose_engine``.
        spec: the tokenizer.
        workers: forks of this process that will ask it too, each by ``EngineElsewhere.of_worker``; 0: this process
            alone asks, from any number of threads.
    """
    kind, files = locate(spec)
    may_be_fast = engine in ("auto", "gigatoken") and importlib.util.find_spec("gigatoken") is not None
    if not may_be_fast or kind != "HuggingFaceTokenizer" or spec.special_tokens_in_text == "split":
        yield open_tokenizer(spec)
        return
    with TokenizerProcess(spec, workers=workers) as process:
        gigatoken.load_ahead(files[0], by_threads=not workers)
        yield process.tokenizer()


class TokenizerProcess:
    """Opens a tokenizer elsewhere, from the moment it is made.

    The process ends when this one closes it or is gone, however.

    Args:
        spec: what ``open_tokenizer`` is asked for.
        workers: forks of this process that will ask too, at the same time.
    """

    def __init__(self, spec: TokenizerSpec, *, workers: int = 0) -> None:
        self._parent = os.getpid()
        pipes = [Pipe() for _ in range(workers + 1)]
        ends = [theirs.fileno() for _, theirs in pipes]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *map(str, ends)],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # What the keyboard sends is for this process to decide about.
            start_new_session=True,
        )
        for _, theirs in pipes:
            theirs.close()
        self._line, *self._of_workers = (_Line(ours, self._fate) for ours, _ in pipes)
        self._line.own()
        self._line.send(spec)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, when it has been opened; its engine works in the other process. Raises as opening does."""
        opened: _Opened = self._line.receive()
        return opened.asked_by(self._line, self._of_workers)

    def close(self) -> None:
        """Ends the process, which leaves nothing to be finished."""
        for line in (self._line, *self._of_workers):
            line.close()
        self._process.kill()
        self._process.wait()

    def _fate(self) -> str:
        if self._parent != os.getpid():  # whose child it is not
            return "died"
        code = self._process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def __enter__(self) -> "TokenizerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Line:
    """One end of a pipe to the process; threads take turns.

    It is one process's own. In another, a fork, which would get what that one asked for, it is an error to ask by it.

    Args:
        pipe: the end.
        fate: says how the process ended.
    """

    def __init__(self, pipe: Connection, fate: Callable[[], str]) -> None:
        self._pipe = pipe
        self._fate = fate
        self._lock = threading.Lock()
        self._owner: int | None = None

    def own(self) -> None:
        """Makes it this process's own."""
        self._owner = os.getpid()

    def ask(self, what: str, *arguments: Any) -> Any:
        """The value of an attribute of the tokenizer, or what its method returns.

        Raises:
            ChildProcessError: the process died.
        """
        if self._owner != os.getpid():
            raise RuntimeError(f"process {os.getpid()} asks by the line of {self._owner}")
        with self._lock:
            self.send((what, arguments))
            return self.receive()

    def send(self, question: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # found dead when its answer is asked for
            self._pipe.send(question)

    def receive(self) -> Any:
        try:
            failed, content = self._pipe.recv()
        except _LEFT:
            raise ChildProcessError(f"the process that holds the tokenizer {self._fate()}") from None
        if not failed:
            return content
        raise content if isinstance(content, BaseException) else RuntimeError(f"in the tokenizer's process:\n{content}")

    def close(self) -> None:
        self._pipe.close()


class EngineElsewhere:
    """The engine of a tokenizer in another process.

    Args:
        opened: the tokenizer there.
        line: to that process.
        of_workers: lines for forks of this one.
    """

    def __init__(self, opened: "_Opened", line: _Line, of_workers: Sequence[_Line]) -> None:
        self.name = opened.engine_name
        self.version = opened.engine_version
        self._opened = opened
        self._line = line
        self._of_workers = of_workers

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        return cast(Encoded, self._line.ask("encode", list(texts)))

    def of_worker(self, number: int) -> Tokenizer:
        """Its tokenizer as a fork is to ask for it: by a line that is that fork's alone."""
        line = self._of_workers[number]
        line.own()
        return self._opened.asked_by(line)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What the process says of its tokenizer.

    Attributes:
        plain: attributes of ``Tokenizer``, by their names.
        engine_name: what encodes.
        engine_version: of its library.
        has_json: there is a ``tokenizer.json`` of it.
        decodes: its ids stand for texts.
    """

    plain: dict[str, Any]
    engine_name: str
    engine_version: str
    has_json: bool
    decodes: bool

    def asked_by(self, line: _Line, of_workers: Sequence[_Line] = ()) -> Tokenizer:
        """The tokenizer as it is known here; what is not plain is asked for by that line."""
        return Tokenizer(
            **self.plain,
            engine=EngineElsewhere(self, line, of_workers),
            _find_largest_id=partial(line.ask, "largest_id"),
            _json=partial(line.ask, "json") if self.has_json else None,
            _find_around=partial(line.ask, "added_around"),
            _decode=partial(line.ask, "decode") if self.decodes else None,
        )


def serve(descriptors: Sequence[str]) -> None:
    """What the other process does: opens a tokenizer, and answers until nobody listens any more.

    Args:
        descriptors: of its ends of pipes; it ends when the first one is closed.
    """
    pipe, *more = (Connection(int(descriptor)) for descriptor in descriptors)
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
            has_json, decodes = tokenizer._json is not None, tokenizer._decode is not None
            pipe.send((False, _Opened(plain, engine.name, engine.version, has_json, decodes)))
        except _LEFT:
            raise
        except BaseException as error:
            pipe.send((True, told(error)))
            return
        for other in more:
            threading.Thread(target=_answer_all, args=(other, methods), daemon=True).start()
        _answer_all(pipe, methods)
    except _LEFT:
        return


def _answer_all(pipe: Connection, methods: dict[str, Callable[..., Any]]) -> None:
    with contextlib.suppress(*_LEFT):
        while True:
            what, arguments = pipe.recv()
            try:
                answer = (False, methods[what](*arguments))
            except BaseException as error:
                answer = (True, told(error))
            pipe.send(answer)
