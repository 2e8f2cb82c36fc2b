"""The web as far as the user configures it: folders of pages, and search engines."""
