"""Facts of a session in order: events, records, their encoding and the hash chain."""
