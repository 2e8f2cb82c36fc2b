"""A session and its one ledger; everything else is a view of it."""
