"""The HTTP routes of the provider, as the official clients use them."""
