"""One engine replica: vLLM behind the planned decision."""
