"""The provider's wire: the routes that official clients use."""
