"""Run the code of a page, in order, in the current folder: ``python run_page.py docs/data.md``.

The ``python`` blocks share one namespace. The commands of the ``console`` blocks share one shell,
which finds the programs of this Python's environment first. The expected output is what a ``text``
block directly below a ``python`` block shows, and what a ``console`` block shows below a command
(its errors only if it fails, since progress depends on the machine's speed);
``...`` and ``…`` match anything. ``cat FILE`` writes a file that is not there yet, as shown.

A command that prints ``error:`` must fail, and any other must succeed. Times are not compared, nor
are ids of models, which differ between processors as the last bits of numbers do. A block with a
program of `NOT_RUN`, which no page installs, is left out, and so are the commands of another block,
such as ``sh``, which only illustrate.

Nothing outside the standard library is imported, so any environment can run this file.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pages import Block, Command, commands, examples, relative
from pages import blocks as blocks_of

NOT_RUN = frozenset(
    ("airflow", "crontab", "docker", "helm", "jq", "kubectl", "make", "pip", "pytest", "rsync")
)
"""These programs, and those of ``.venv``, which only a clone has."""

_DONE = "=== exit code "
_RULE = re.compile("─+")  # of a table, whose width follows from the longest cell
_ID = re.compile(r"\b(?:[0-9a-f]{64}\b|[0-9a-f]{8,63}\.\.\.)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|\d+\.\d+ s\b")


class Shell:
    """One Bash for all commands of a page, so that variables and the folder persist."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._errors = Path(self._folder.name, "errors")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # Without a width, lines are not broken.
        variables = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**variables, "PATH": path, "HOME": str(Path.cwd())},
            text=True,
        )

    def run(self, command: str) -> tuple[int, str, str]:
        """The exit code of a command, its output, and its errors."""
        bash = self._bash
        assert bash.stdin is not None
        assert bash.stdout is not None
        errors = shlex.quote(str(self._errors))
        bash.stdin.write(f"{{ {command}\n}} 2> {errors}\nprintf '\\n{_DONE}%s\\n' $?\n")
        bash.stdin.flush()
        lines: list[str] = []
        for line in bash.stdout:
            if line.startswith(_DONE):
                text = self._errors.read_text(encoding="utf-8")
                return int(line.removeprefix(_DONE)), "".join(lines), text
            lines.append(line)
        raise AssertionError(f"{command!r} ended the shell")

    def close(self) -> None:
        """End the shell."""
        with self._folder, self._bash as bash:
            bash.kill()


def run(page: Path) -> None:
    """Run the code of a page in the current folder.

    Raises:
        AssertionError: if the output differs from what the page shows, or a command fails.
    """
    text = page.read_text(encoding="utf-8")
    outputs = dict(examples(text))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.closing(Shell()) as shell:
        for block in blocks_of(text):
            if block in outputs:
                _run_python(page, block, outputs[block], namespace)
            for command in commands_to_run(block):
                _run_command(page, command, shell)
    print(f"{relative(page)} runs")  # noqa: T201


def commands_to_run(block: Block) -> list[Command]:
    """The commands of a ``console`` block; none if it uses a program of `NOT_RUN`."""
    found = commands(block)
    return found if all(map(_is_run, found)) else []


def _is_run(command: Command) -> bool:
    words = shlex.split(command.text.partition("\n")[0].rstrip("\\"), comments=True)
    return NOT_RUN.isdisjoint(words) and not words[0].startswith(".venv/")


def _run_python(page: Path, block: Block, expected: str, namespace: dict[str, Any]) -> None:
    # Leading blank lines, so that a traceback names the line of the page.
    code = compile("\n" * (block.line - 1) + block.body, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    _check(page, block.line, expected, printed.getvalue())


def _run_command(page: Path, command: Command, shell: Shell) -> None:
    program, _, name = command.text.partition(" ")
    if program == "cat" and command.expected and not Path(name).exists():
        Path(name).write_text(f"{command.expected}\n", encoding="utf-8")
    code, output, errors = shell.run(command.text)
    failed = command.expected.startswith("error:")
    assert bool(code) == failed, f"{relative(page)}, line {command.line}, exits {code}\n{errors}"
    if command.expected:
        _check(page, command.line, command.expected, errors if failed else output)


def _check(page: Path, line: int, expected: str, output: str) -> None:
    expected, actual = (
        _RULE.sub("─", _TIME.sub("some time", _ID.sub("some id", text)))
        for text in (expected.replace("…", "..."), output)
    )
    same = doctest.OutputChecker().check_output(
        expected, actual, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert same, f"{relative(page)}, line {line}, prints\n{output}"


if __name__ == "__main__":
    run(Path(sys.argv[1]))
