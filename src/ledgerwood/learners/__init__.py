"""Private models: plan from public facts, release through a ledger, post-process."""
