"""Manual pages as plain text: literal pages in, literal lines out."""

from __future__ import annotations

from kcli.cli.help.plain_page import plain_text

PAGE = r""".TH "KCLI\-X" "1" "" "kcli" "kcli manual"
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
.SH EXAMPLES
.PP
.nf
\fBkcli x \-\-long 1\fR
.fi
.RS 4
With a comment.
.RE
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

EXAMPLES
       kcli x --long 1
           With a comment.
"""


def test_a_page_is_laid_out_as_man_does_it() -> None:
    assert plain_text(PAGE, 40) == TEXT
