"""One real session that a person can follow: a question, tools of every kind, and the proof."""
