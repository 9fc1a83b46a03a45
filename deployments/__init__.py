"""Running it: the command line, saving the blocks, the shipped deployments, the demo and the sandbox."""
