"""The server parts that transports and the embedded provider share: listener, authentication,
origins, tokens, refusals and stop signals.
"""
