"""`python -m reproduction`: run the paper's experiments, and report their results."""

from fotltn.cli.main import main
from reproduction.cli import app

if __name__ == "__main__":
    main(app)
