"""``python -m jevserve``: the command line."""

from jevserve.cli import main

main()
