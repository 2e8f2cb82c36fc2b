"""Signing in to a server with a browser, and for admins the people who use it: their tokens and
sign-ins. These operations are the server's, not the runtime's, which knows no credentials.
"""
