"""The HTTP door: bodies, keys, the System One dialect, errors and the application."""
