"""A page of the manual as troff and as plain text: literal page in, literal lines out."""

from __future__ import annotations

from kcli.cli.docs.page import ExampleLine, Item, Page, items, paragraphs, plain_text, see_also, troff

PAGE = Page(
    "kcli-x",
    "Does x.",
    {
        "DESCRIPTION": paragraphs("Words that are long enough\nto be filled over lines.\n\n\b\nas  it   is \\ n"),
        "OPTIONS": [
            Item((("B", "--long"), ("R", ", "), ("B", "-l"), ("R", " "), ("I", "N")), ".Dots at the start."),
            *items([("0", "Done."), ("1", "")]),
        ],
        "EXAMPLES": [ExampleLine("kcli x --long 1", "With a comment."), ExampleLine("kcli x", "")],
        "SEE ALSO": see_also(["kcli(1)", "kcli-y(7)"]),
    },
)
TROFF = r""".TH "KCLI-X" "1" "" "kcli" "kcli manual"
.SH NAME
kcli\-x \- Does x.
.SH DESCRIPTION
Words that are long enough
to be filled over lines.
.PP
.nf
.ft CW
as  it   is \e n
.ft
.fi
.SH OPTIONS
.TP
\fB\-\-long\fR, \fB\-l\fR \fIN\fR
\&.Dots at the start.
.TP
\fB0\fR
Done.
.TP
\fB1\fR
\&
.SH EXAMPLES
.PP
.nf
\fBkcli x \-\-long 1\fR
.fi
.RS 4
With a comment.
.RE
.PP
.nf
\fBkcli x\fR
.fi
.SH SEE ALSO
\fBkcli\fR(1),
\fBkcli\-y\fR(7)
"""
TEXT = r"""KCLI-X(1)

NAME
       kcli-x - Does x.

DESCRIPTION
       Words that are long enough to be
       filled over lines.

       as  it   is \ n

OPTIONS
       --long, -l N
              .Dots at the start.

       0      Done.

       1

EXAMPLES
       kcli x --long 1
           With a comment.

       kcli x

SEE ALSO
       kcli(1), kcli-y(7)
"""


def test_a_page_in_troff() -> None:
    assert troff(PAGE) == TROFF


def test_a_page_is_laid_out_as_man_does_it() -> None:
    assert plain_text(PAGE, 40) == TEXT
