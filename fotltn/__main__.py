"""Run the command line as `python -m fotltn`."""

if __name__ == "__main__":
    try:
        from fotltn.cli.main import main

        main()
    except KeyboardInterrupt:  # while it loads
        raise SystemExit(130) from None
