"""A backend that follows a written scenario and takes its facts from the tools' answers."""
