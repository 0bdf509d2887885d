"""The tape: its operations, how it is recorded, printed, checked and played."""
