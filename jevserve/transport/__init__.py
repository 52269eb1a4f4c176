"""How a plan travels: everything that crosses a process, and nothing else."""
