"""`rag-eval`, also as `python -m rag_eval_assets`: starts the command line, and ends quietly on an interrupt at any time.

What does not belong here: commands (`cli`), and imports at the top: those take a second, in which an interrupt may come.
"""

INTERRUPTED = 130


def main() -> None:
    """Entry point. Everything is written and closed when a command returns, so the interpreter's end is skipped.

    Python ends threads that still wait for it by unwinding them, which C++ libraries answer with an abort: a sync that had done
    all its work would end with exit code 134.
    """
    import os
    import sys

    try:
        from rag_eval_assets.cli import run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        code = INTERRUPTED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # the reader, head for one, has seen enough
    os._exit(code)


if __name__ == "__main__":
    main()
