"""What jevserve measures: every metric and span, listed in one file each."""
