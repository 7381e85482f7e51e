"""`python -m reproduction`: the paper's experiments, and what comes of them."""

from fotltn.cli.main import main
from reproduction.cli import app

if __name__ == "__main__":
    main(app)
