"""Run the command line as `python -m fotltn`."""

import sys

if __name__ == "__main__":
    try:
        from fotltn.cli.main import main

        main()
    except KeyboardInterrupt:  # while it loads
        sys.stderr.write("stopped\n")
        raise SystemExit(130) from None
