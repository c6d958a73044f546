"""How fast the package's attention is, beside torch's and other packages'. One command: `make benchmark`."""
