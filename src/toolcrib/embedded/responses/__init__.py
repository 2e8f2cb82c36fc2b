"""The Responses API: requests, the items they are answered with, and the loop that makes them."""
