"""From a lowered tape to steps: operations grouped into clusters that run together."""
