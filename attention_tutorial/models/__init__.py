"""Whole models built from attention, and their training."""
