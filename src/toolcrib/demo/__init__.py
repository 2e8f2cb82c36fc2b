"""The demo: one session from a question, through tools of every kind, to a verified ledger."""
