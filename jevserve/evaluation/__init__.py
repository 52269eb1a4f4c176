"""Measuring decisions: data with labels, metrics, the fit of scales, and the report."""
