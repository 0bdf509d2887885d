"""What is known of each function: rules, kernels, cases. All that files of rules import stands here."""
