"""The command line: `fotltn`, or `python -m fotltn`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with a word, even while it loads."""
    try:
        from fotltn.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
