"""The Responses API without HTTP: requests, the response loop, items and stored responses."""
