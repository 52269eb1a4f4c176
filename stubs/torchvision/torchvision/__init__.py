"""Import-only stand-in for torchvision: it can be imported, and does nothing else."""

__version__ = "0.28.0+import.only"
