"""Search in text: reading documents, cutting them into chunks, and finding those that answer."""
