"""One codec a file: a neutral kind of hosted tool to and from the Responses API."""
