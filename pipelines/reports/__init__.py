"""Pages, tables and plots for people, made from the records that the commands compute."""
