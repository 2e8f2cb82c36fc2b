"""The runtime: sessions and tools behind one service, whatever the transport."""
