"""From steps to memory and loop nests."""
