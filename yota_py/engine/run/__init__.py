"""The compiled driver, and the programs that it runs."""
