"""Values that record what is done with them, and what stands in for functions that do not notice them."""
