"""What the way of a request costs: the whole HTTP path with an engine that does nothing.

    python -m loadtests.overhead run docs/results/overhead.json
    python -m loadtests.overhead report docs/results/overhead.json

Needs ``wrk`` (Debian: ``apt-get install wrk``). docs/explanation/overhead.md says what is measured.
"""
