"""``python -m ledgerwood``: the command line."""

from ledgerwood.app.cli.main import main

if __name__ == "__main__":
    main()
