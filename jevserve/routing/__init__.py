"""Which replica: pure policies over affinity keys and replica reports."""
