"""The program of an interpreter, run inside the sandbox: executes code from lines of JSON.

It runs as a plain script, so it must not import this package.
"""

import ast
import contextlib
import json
import os
import sys
import threading
import traceback
from typing import Any

FIGURES = ".figures"
WORK_AT = "/mnt/data"


def main() -> None:
    """Execute one request after another until the input ends."""
    for fonts in sys.argv[1:]:
        _take_fonts(fonts)
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        with OutputCapture(request["most_output"]) as output:
            succeeded = _execute(request["code"], namespace)
            figures = _figures(request["run"])
        answer = {
            "run": request["run"],
            "logs": output.text,
            "was_cut": output.was_cut,
            "succeeded": succeeded,
            "figures": figures,
        }
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _take_fonts(fonts: str) -> None:
    """Copy the font list into matplotlib's configuration folder, which must be writable."""
    with contextlib.suppress(OSError, KeyError):
        folder = os.environ["MPLCONFIGDIR"]
        os.makedirs(folder, exist_ok=True)
        copy = os.path.join(folder, os.path.basename(fonts))
        with open(fonts, "rb") as source, open(copy, "wb") as target:
            target.write(source.read())


def _execute(code: str, namespace: dict[str, Any]) -> bool:
    """Run code and print the value of its last expression; False if it raised."""
    try:
        tree = ast.parse(code, "<code>")
        if not os.path.isdir(WORK_AT):
            _Paths().visit(tree)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<code>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<code>", "eval"), namespace)
            if value is not None:
                print(repr(value))
        return True
    except SystemExit as error:
        return error.code in (None, 0)
    except BaseException:
        kind, error, trace = sys.exc_info()
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
        return False
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()


class _Paths(ast.NodeTransformer):
    """Rewrites paths below /mnt/data, for sandboxes that cannot mount the folder there."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and f"{node.value}/".startswith(f"{WORK_AT}/"):
            here = os.getcwd() + node.value[len(WORK_AT) :]
            return ast.copy_location(ast.Constant(here), node)
        return node


def _figures(run: int) -> list[str]:
    """Save the figures that were drawn and not closed; returns their files."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not pyplot.get_fignums():
        return []
    saved: list[str] = []
    try:
        os.makedirs(FIGURES, exist_ok=True)
        for number in pyplot.get_fignums():
            name = f"{FIGURES}/{run}-{number}.png"
            pyplot.figure(number).savefig(name, format="png", dpi=100)
            saved.append(name)
        pyplot.close("all")
    except Exception:
        traceback.print_exc()
    return saved


class OutputCapture:
    """Captures stdout and stderr, also of child processes, up to a limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._captured = bytearray()
        self.was_cut = False

    @property
    def text(self) -> str:
        """The captured output, up to the limit."""
        return self._captured.decode("utf-8", "replace")

    def __enter__(self) -> "OutputCapture":
        self._saved = [os.dup(1), os.dup(2)]
        reads, writes = os.pipe()
        os.dup2(writes, 1)
        os.dup2(writes, 2)
        os.close(writes)
        self._reader = threading.Thread(target=self._read, args=(reads,), daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        for saved, number in zip(self._saved, (1, 2), strict=True):
            os.dup2(saved, number)
            os.close(saved)
        # A child process that still runs may keep the pipe open forever.
        self._reader.join(0.5)

    def _read(self, reads: int) -> None:
        with os.fdopen(reads, "rb", buffering=0) as pipe:
            while True:
                piece = pipe.read(65536)
                if not piece:
                    return
                room = self._most - len(self._captured)
                self._captured += piece[:room]
                self.was_cut = self.was_cut or len(piece) > room


if __name__ == "__main__":
    main()
