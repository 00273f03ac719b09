"""Two processes on this machine that talk by gloo."""
