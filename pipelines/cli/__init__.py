"""The commands of `assay`; `pipelines.cli.app` puts them together."""
