"""`kcli help`: the manual in the terminal, from the program itself.

`help.run` finds the page of a topic, and shows it with `man` on a terminal, else as plain text (`plain_page`). The text
of a page is made from the commands (`kcli.cli.docs`), so that it is there however kcli is installed.
"""
