"""The commands of `assay`, a file for each; `pipelines.cli.app` puts them together."""
