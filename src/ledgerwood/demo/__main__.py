"""``python -m ledgerwood.demo``."""

from ledgerwood.demo import main

if __name__ == "__main__":
    main()
