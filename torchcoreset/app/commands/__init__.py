"""The commands, a module each, which call the public names of the library."""
