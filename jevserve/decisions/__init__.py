"""The pure core: requests, plans, combination of row values, answers."""
