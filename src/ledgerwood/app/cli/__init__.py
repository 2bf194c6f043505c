"""The commands of ``ledgerwood``, one module per subject; each imports what it needs when it runs."""
