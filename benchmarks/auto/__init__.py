"""How accurate the automatic choice is: the numbers of ``docs/explanation/auto.md``, resumable, by one command."""
