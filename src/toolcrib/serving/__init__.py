"""What every server shares: listener, authentication, origins, refusals, stop signals."""
