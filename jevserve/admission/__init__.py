"""Whether: deadlines, bounds and the cache salt, decided before any engine sees a token."""
