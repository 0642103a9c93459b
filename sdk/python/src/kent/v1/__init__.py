"""The generated messages and stubs of Kent's protocol."""
