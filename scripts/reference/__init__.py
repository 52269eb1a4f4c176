"""What the reference pages say, read from the code: one file a page."""
