"""How likely a pretrained model finds a text: `likelihood@MODEL`."""
