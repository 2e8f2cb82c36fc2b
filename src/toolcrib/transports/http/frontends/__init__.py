"""The chats of front ends, over the events of sessions: the UI message stream of the Vercel AI SDK,
and AG-UI.
"""
