"""The pure rules: states, outcomes, decisions. Standard library only, no input or output."""
