"""A call on tracers: what the function reads besides its arguments, and what it does besides its result."""
