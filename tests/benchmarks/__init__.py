"""What a change costs: ratios of two measurements made side by side in one run, never a time on its own."""
