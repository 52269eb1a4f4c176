"""The Ray Serve application and nothing else: thin shells around the core."""
