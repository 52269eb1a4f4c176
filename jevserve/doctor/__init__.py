"""What would a start of the service meet on this machine: checks, verdicts, remedies.

Each file has one subject: the facts it needs as a frozen dataclass, a thin probe that reads them,
and pure functions from facts to findings. ``examine`` runs them all and lets none of them crash.
"""
