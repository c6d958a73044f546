"""What is measured: costs, attention weights, patterns of heads, what features tell."""
