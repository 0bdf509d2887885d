"""Which program serves a call, when one is compiled, and how programs are audited."""
