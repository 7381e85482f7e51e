"""`python -m fotltn`."""

from fotltn.cli.main import main

if __name__ == "__main__":
    main()
