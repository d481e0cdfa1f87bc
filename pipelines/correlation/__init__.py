"""From score files and human ratings to tables of agreement; the statistics are in `agreement`."""
