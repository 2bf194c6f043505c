"""Ledgers: budgets that refuse, record and then release, with a durable journal."""
