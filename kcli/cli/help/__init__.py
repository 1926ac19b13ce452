"""`kcli help`: the manual in the terminal, from the program itself.

`help.run` finds the page of a topic, which `kcli.cli.docs` makes of the commands, so that it is there however kcli is
installed. `kcli.cli.docs.page` renders it: for the program `man` on a terminal, else as plain text. Words that are no
topic are searched in the titles and summaries of all pages.
"""
