"""Language models that are asked for a verdict in words, by a server or here: `ask@ALIAS`."""
