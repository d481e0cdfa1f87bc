"""The commands of `assay`, a file for each; `pipelines.cli` puts them together."""
