"""Generated data sets: everything is drawn from a generator, nothing is downloaded."""
